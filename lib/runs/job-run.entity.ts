import { Column, Entity, PrimaryColumn } from 'typeorm';
import type { StoredError } from '../errors/stored-error.js';
import type { RunStatus, RunTrigger } from '../options/run.js';

/** One finished attempt that was followed by another, or what the row was before a backfill ran it. */
export interface EarlierAttempt {
  attempt: number;
  claimedBy: string | null;
  startedAt: string | null;
  finishedAt: string | null;
  status: RunStatus;
  error: StoredError | null;
  /** Why it ended as it did, had not run, or was begun again. */
  reason?: string | null;
  /** Set where a backfill took the row over: what had caused it. */
  trigger?: RunTrigger;
  /** On the first of many: how many that came after it are not kept. */
  leftOut?: number;
}

/** One occurrence of one job: what happened to it, or why nothing did. */
@Entity({ name: 'job_runs' })
export class JobRun {
  @PrimaryColumn('text', { name: 'job_name' })
  jobName!: string;

  @PrimaryColumn('timestamptz', { name: 'fire_time' })
  fireTime!: Date;

  @Column('uuid', { default: () => 'gen_random_uuid()' })
  id!: string;

  @Column('text')
  status!: RunStatus;

  @Column('text')
  trigger!: RunTrigger;

  /** Why the occurrence did not run, or why its last attempt ended as it did. */
  @Column('text', { nullable: true })
  reason!: string | null;

  @Column('text', { name: 'claimed_by', nullable: true })
  claimedBy!: string | null;

  @Column('timestamptz', { name: 'lease_until', nullable: true })
  leaseUntil!: Date | null;

  /** The attempt that is running or ran last; 0 before the first claim. */
  @Column('integer', { default: 0 })
  attempt!: number;

  /**
   * Attempts that do not count towards the job's `maxAttempts`: handed back by a stopping instance, or from before a
   * backfill ran the occurrence again.
   */
  @Column('integer', { default: 0 })
  releases!: number;

  @Column('timestamptz', { name: 'started_at', nullable: true })
  startedAt!: Date | null;

  @Column('timestamptz', { name: 'finished_at', nullable: true })
  finishedAt!: Date | null;

  @Column('timestamptz', { name: 'next_attempt_at', nullable: true })
  nextAttemptAt!: Date | null;

  @Column('jsonb', { nullable: true })
  error!: StoredError | null;

  @Column('jsonb', { nullable: true })
  checkpoint!: unknown;

  @Column('jsonb', { name: 'earlier_attempts', default: () => `'[]'` })
  earlierAttempts!: EarlierAttempt[];

  /** Who asked for it, where a person did. */
  @Column('text', { name: 'requested_by', nullable: true })
  requestedBy!: string | null;

  /** What its handler gets as `run.data`, where it was given for this run alone. */
  @Column('jsonb', { nullable: true })
  data!: unknown;

  /** Since when its handler is told to stop, and why; it ends as cancelled. */
  @Column('timestamptz', { name: 'cancel_requested_at', nullable: true })
  cancelRequestedAt!: Date | null;

  @Column('text', { name: 'cancel_reason', nullable: true })
  cancelReason!: string | null;

  /** The group whose limit it counts towards while it runs. */
  @Column('text', { name: 'concurrency_group', nullable: true })
  concurrencyGroup!: string | null;

  /** A skipped row that stands for a gap: the first fire time it covers; the last is the row's own. */
  @Column('timestamptz', { name: 'gap_from', nullable: true })
  gapFrom!: Date | null;

  /** How many occurrences the gap stands for: those that have no row of their own, and this one. */
  @Column('integer', { name: 'gap_count', nullable: true })
  gapCount!: number | null;

  /** The backfill that queued the run last. */
  @Column('uuid', { name: 'backfill_id', nullable: true })
  backfillId!: string | null;

  /** The run may run beside others of its job, and others beside it, whatever the job's overlap policy says. */
  @Column('boolean', { default: false })
  beside!: boolean;

  /** How many pages it was fanned out into; null when it was not. */
  @Column('integer', { nullable: true })
  pages!: number | null;

  @Column('timestamptz', { name: 'created_at', default: () => 'clock_timestamp()' })
  createdAt!: Date;
}
