import { Column, Entity, PrimaryColumn } from 'typeorm';

/** Durable proof that one effect for one entity in one occurrence was done. */
@Entity({ name: 'receipts' })
export class Receipt {
  @PrimaryColumn('text', { name: 'job_name' })
  jobName!: string;

  @PrimaryColumn('timestamptz', { name: 'fire_time' })
  fireTime!: Date;

  @PrimaryColumn('text')
  entity!: string;

  @PrimaryColumn('text', { default: 'default' })
  effect!: string;

  @Column('text', { default: 'done' })
  state!: 'done';

  @Column('integer')
  attempt!: number;

  @Column('text', { name: 'claimed_by' })
  claimedBy!: string;

  @Column('text', { name: 'idempotency_key' })
  idempotencyKey!: string;

  /** What the effect returned, when it was JSON; later attempts get it instead of a second effect. */
  @Column('jsonb', { nullable: true })
  result!: unknown;

  @Column('timestamptz', { name: 'created_at', default: () => 'clock_timestamp()' })
  createdAt!: Date;
}
