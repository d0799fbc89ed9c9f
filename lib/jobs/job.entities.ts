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

/** A process that takes part, and what its code declares. It is there for as long as it says so now and then. */
@Entity({ name: 'job_instances' })
export class JobInstance {
  @PrimaryColumn('text')
  id!: string;

  /** Expression and zone of each job that its code declares, by name. */
  @Column('jsonb')
  jobs!: Record<string, [cron: string, timeZone: string]>;

  /** The handlers it has for jobs made at run time. */
  @Column('jsonb')
  handlers!: string[];

  /** Since when its event loop stands still: nothing of it goes on but its heartbeat. Null: it moves. */
  @Column('timestamptz', { name: 'blocked_since', nullable: true })
  blockedSince!: Date | null;

  /** The key of the advisory lock that it holds while it lives; null: it is judged by its leases. */
  @Column('bigint', { nullable: true })
  lifeline!: string | null;

  /** A number for the names in `jobs` and `handlers` together: the same where they are the same. */
  @Column('bigint')
  declares!: string;

  /** Its application; null: unknown, or of a release that does not say. */
  @Column('text', { nullable: true })
  application!: string | null;

  /** The versions of its time-zone data and of the library that reads them. */
  @Column('text', { nullable: true })
  tz!: string | null;

  @Column('text', { nullable: true })
  icu!: string | null;

  /** The rules of the zones that its jobs are in, by zone and year. */
  @Column('jsonb', { nullable: true })
  zones!: Record<string, Record<string, number>> | null;

  @Column('timestamptz', { name: 'started_at' })
  startedAt!: Date;

  @Column('timestamptz', { name: 'alive_until' })
  aliveUntil!: Date;
}

/** Times as ISO 8601 with an offset. */
export interface EarlierHold {
  reason: 'paused' | 'disabled';
  since: string | null;
  until: string;
  by?: string | null;
  why?: string | null;
}

/** A job as the code last declared it, with what operators decided about it. */
@Entity({ name: 'job_schedule' })
export class JobSchedule {
  @PrimaryColumn('text')
  name!: string;

  @Column('text')
  cron!: string;

  @Column('text', { name: 'time_zone' })
  timeZone!: string;

  @Column('text', { nullable: true })
  owner!: string | null;

  @Column('jsonb')
  policies!: Record<string, unknown>;

  /** Of a job made at run time: the `@DistributedCronHandler` that runs it. Null for one that the code declares. */
  @Column('text', { nullable: true })
  handler!: string | null;

  /** Of a job made at run time: its options as they were given. */
  @Column('jsonb', { nullable: true })
  options!: Record<string, unknown> | null;

  /** Of a job made at run time: what its handler gets as `run.data`. */
  @Column('jsonb', { nullable: true })
  data!: unknown;

  /**
   * Dates that are left out, and the first and last instant; see `startAt`, `endAt` and `exclude`. Part of the
   * schedule.
   */
  @Column('text', { nullable: true })
  calendar!: string | null;

  /** Since when the expression, or the zone, is an operator's: no declaration changes it. */
  @Column('timestamptz', { name: 'overridden_at', nullable: true })
  overriddenAt!: Date | null;

  @Column('text', { name: 'overridden_by', nullable: true })
  overriddenBy!: string | null;

  @Column('text', { name: 'overridden_reason', nullable: true })
  overriddenReason!: string | null;

  @Column('boolean', { default: true })
  enabled!: boolean;

  @Column('timestamptz', { name: 'disabled_at', nullable: true })
  disabledAt!: Date | null;

  @Column('timestamptz', { name: 'paused_at', nullable: true })
  pausedAt!: Date | null;

  @Column('timestamptz', { name: 'paused_until', nullable: true })
  pausedUntil!: Date | null;

  @Column('text', { name: 'paused_by', nullable: true })
  pausedBy!: string | null;

  @Column('text', { name: 'paused_reason', nullable: true })
  pausedReason!: string | null;

  /** Pauses and the like that are over, oldest first: what came due meanwhile is not missed. */
  @Column('jsonb', { name: 'earlier_holds', default: () => `'[]'` })
  earlierHolds!: EarlierHold[];

  /** The expression holds from here; nothing before it is ever due. */
  @Column('timestamptz', { name: 'effective_from' })
  effectiveFrom!: Date;

  /**
   * Every due occurrence up to here has a row. Written now and then, not for each occurrence, so it is a lower bound:
   * from here on, due fire times are compared with rows.
   */
  @Column('timestamptz', { name: 'decided_until' })
  decidedUntil!: Date;

  @Column('timestamptz', { name: 'declared_at' })
  declaredAt!: Date;

  /** The name under which this job's occurrences are decided: its former one in a deploy, its new one afterwards. */
  @Column('text', { name: 'yields_to', nullable: true })
  yieldsTo!: string | null;

  /** Since when a job made at run time is no more. */
  @Column('timestamptz', { name: 'removed_at', nullable: true })
  removedAt!: Date | null;

  /** Raised by each change that replicas have to follow, in the order of the commits. */
  @Column('bigint')
  revision!: string;
}
