import { Column, Entity, PrimaryColumn } from 'typeorm';

/** A feature flag that jobs may name: off, their next start does not happen. One without a row is on. */
@Entity({ name: 'job_flags' })
export class JobFlag {
  @PrimaryColumn('text')
  name!: string;

  @Column('boolean', { name: 'is_on' })
  isOn!: boolean;

  @Column('text', { name: 'changed_by', nullable: true })
  changedBy!: string | null;

  @Column('text', { nullable: true })
  reason!: string | null;

  @Column('timestamptz', { name: 'changed_at', default: () => 'clock_timestamp()' })
  changedAt!: Date;
}
