import { Column, Entity, PrimaryColumn } from 'typeorm';

/** A backfill that an operator asked for, and how far it has come. */
@Entity({ name: 'job_backfills' })
export class JobBackfill {
  @PrimaryColumn('uuid', { default: () => 'gen_random_uuid()' })
  id!: string;

  @Column('text', { name: 'job_name' })
  jobName!: string;

  /** Both ends belong to the range. */
  @Column('timestamptz', { name: 'range_from' })
  from!: Date;

  @Column('timestamptz', { name: 'range_to' })
  to!: Date;

  @Column('integer', { name: 'max_concurrent' })
  maxConcurrent!: number;

  /** Its runs may run beside others of their job, and others beside them. */
  @Column('boolean')
  beside!: boolean;

  /** It also runs again what has run already. */
  @Column('boolean')
  replay!: boolean;

  /** Every occurrence of the range up to here was queued or left alone. */
  @Column('timestamptz', { name: 'fed_until' })
  fedUntil!: Date;

  /** How many occurrences the range had when it was asked for. */
  @Column('integer')
  total!: number;

  /** How many of them were queued so far. */
  @Column('integer', { default: 0 })
  fed!: number;

  /** How many were passed over: they had run, or somebody else had them in hand. */
  @Column('integer', { name: 'left_alone', default: 0 })
  leftAlone!: number;

  @Column('text', { name: 'requested_by', nullable: true })
  requestedBy!: string | null;

  @Column('text', { nullable: true })
  reason!: string | null;

  @Column('timestamptz', { name: 'created_at', default: () => 'clock_timestamp()' })
  createdAt!: Date;

  @Column('timestamptz', { name: 'finished_at', nullable: true })
  finishedAt!: Date | null;

  @Column('timestamptz', { name: 'cancelled_at', nullable: true })
  cancelledAt!: Date | null;

  @Column('text', { name: 'cancelled_by', nullable: true })
  cancelledBy!: string | null;

  @Column('text', { name: 'cancelled_reason', nullable: true })
  cancelledReason!: string | null;
}
