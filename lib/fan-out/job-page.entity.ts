import { Column, Entity, PrimaryColumn } from 'typeorm';
import type { PageStatus } from './page.js';
import type { StoredError } from '../errors/stored-error.js';

/** One part of an occurrence that was fanned out. Partitioned like `job_runs`, and dropped with it. */
@Entity({ name: 'job_pages' })
export class JobPage {
  @PrimaryColumn('text', { name: 'job_name' })
  jobName!: string;

  @PrimaryColumn('timestamptz', { name: 'fire_time' })
  fireTime!: Date;

  @PrimaryColumn('text')
  page!: string;

  /** What it was published with. */
  @Column('jsonb', { nullable: true })
  data!: unknown;

  @Column('text', { default: 'queued' })
  status!: PageStatus;

  /** 1, 2, …; the fencing token of whatever its handler writes. */
  @Column('integer', { default: 0 })
  attempt!: number;

  /** Attempts that do not count: handed back by a stopping instance, or from before a replay. */
  @Column('integer', { default: 0 })
  releases!: number;

  /** How often it was queued again: of the deliveries that a queue makes, only those that say so may begin it. */
  @Column('integer', { default: 0 })
  ticket!: number;

  @Column('text', { name: 'claimed_by', nullable: true })
  claimedBy!: string | null;

  @Column('timestamptz', { name: 'started_at', nullable: true })
  startedAt!: Date | null;

  @Column('timestamptz', { name: 'finished_at', nullable: true })
  finishedAt!: Date | null;

  @Column('timestamptz', { name: 'next_attempt_at', nullable: true })
  nextAttemptAt!: Date | null;

  /** When its ticket was handed to the queue; null when it has to be. */
  @Column('timestamptz', { name: 'enqueued_at', nullable: true })
  enqueuedAt!: Date | null;

  @Column('jsonb', { nullable: true })
  error!: StoredError | null;

  @Column('text', { nullable: true })
  reason!: string | null;

  @Column('timestamptz', { name: 'created_at', default: () => 'clock_timestamp()' })
  createdAt!: Date;
}
