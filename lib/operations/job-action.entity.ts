import { Column, Entity, PrimaryColumn } from 'typeorm';

/** Something an operator did: who, what, why and when. */
@Entity({ name: 'job_actions' })
export class JobAction {
  /** Ascending; a bigint, so a string. */
  @PrimaryColumn('bigint', { generated: 'identity', generatedIdentity: 'ALWAYS' })
  id!: string;

  @Column('timestamptz', { default: () => 'clock_timestamp()' })
  at!: Date;

  /** The verb: `pause`, `replay`, … */
  @Column('text')
  action!: string;

  @Column('text', { name: 'job_name', nullable: true })
  jobName!: string | null;

  @Column('timestamptz', { name: 'fire_time', nullable: true })
  fireTime!: Date | null;

  @Column('text')
  actor!: string;

  @Column('text', { nullable: true })
  reason!: string | null;

  @Column('jsonb', { nullable: true })
  details!: Record<string, unknown> | null;
}
