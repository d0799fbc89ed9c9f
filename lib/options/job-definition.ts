import type { Duration } from './duration.js';
import type { Schedule } from '../cron/schedule.js';

/**
 * How long to wait before a failed run's next attempt: a fixed time, a growing one (doubling from `delay` up to `max`,
 * ten minutes by default, each with up to a fifth of jitter), or a function of the number of failed attempts that
 * returns milliseconds.
 */
export type BackoffOptions = Duration | { delay: Duration; max?: Duration } | BackoffFunction;

/** What a job may say about itself, beside its expression. Durations are milliseconds or strings such as `'30s'`. */
export interface DistributedCronOptions {
  /**
   * The job's identity in the database, the same on every replica and across deploys; at most 200 characters.
   * @default `ClassName.methodName`
   */
  name?: string;
  /**
   * The name, or names, this job had before. Under its new name it goes on where it was under the old one, with the
   * same pauses, and waiting runs of the old name are finished here. It begins when no live instance declares the old
   * name.
   */
  previously?: string | readonly string[];
  /**
   * Who fires the job. `external`: a Kubernetes CronJob, EventBridge or another clock delivers its occurrences, by
   * `SchedulerService.deliver`, over HTTP or on the command line; expression and zone are the times that may be
   * delivered, each of which runs once, and nothing here fires them. What nobody delivers has no row: see `fallback`
   * and `expectSuccessWithin`.
   * @default 'schedule'
   */
  trigger?: JobTrigger;
  /**
   * With `trigger: 'external'`: an occurrence that nobody delivered for so long is started by the schedule after all.
   * @default never
   */
  fallback?: Duration;
  /** IANA zone the expression is read in. @default 'UTC' */
  timeZone?: string;
  /** The job fires at this instant at the earliest: a Date, or ISO 8601 with an offset. */
  startAt?: Date | string;
  /** It fires before this instant only. */
  endAt?: Date | string;
  /**
   * Days, in the job's zone, on which it does not fire: dates (`'2026-12-25'`) and cron expressions that name days only
   * (`'* * 25 12 *'`); at most 1000. What is left out is no occurrence: it is neither skipped nor missed. An `exclude`
   * that leaves nothing is refused.
   */
  exclude?: string | readonly string[];
  /**
   * A feature flag, asked in the claim itself: off, what comes due is recorded as skipped (`flag off: name`), and what
   * waits for an attempt waits on. One that `job_flags` does not have is on; a `FeatureFlags` provider may say that it
   * is off, too.
   */
  flag?: string;
  /**
   * What becomes of a run that is under way when `flag` is turned off, as soon as its owner looks. @default 'finish'
   */
  flagOff?: FlagOffPolicy;
  /** The team that answers for the job. */
  owner?: string;
  /**
   * What becomes of an occurrence that is due while an earlier run still holds its lease. `forbid`: recorded as
   * skipped. `queue`: it waits, in the order of the fire times. `replace`: the earlier run is told to stop through its
   * signal, and the new one starts when that has ended, or its lease has; never beside it. `allow`: it runs beside it.
   * @default 'forbid'
   */
  overlap?: OverlapPolicy;
  /** With `overlap: 'queue'`: how many may wait; what exceeds it is recorded as skipped. @default 100 */
  queueLimit?: number;
  /**
   * With `overlap: 'allow'`: how many runs go on at a time, over all replicas; with more, it is as with `forbid`.
   * @default no limit
   */
  maxParallel?: number;
  /**
   * Jobs of one group have at most `limit` runs under way at a time, over all replicas; what is due beyond that waits
   * for a place. Give all jobs of a group the same limit.
   */
  concurrencyGroup?: { name: string; limit: number };
  /**
   * Occurrences nobody ran in time: `skip` all, run the newest `once`, or run `all` of them, oldest first. Where just
   * one newer occurrence is late, `once` leaves it at that.
   * @default 'once'
   */
  missed?: MissedPolicy;
  /** Missed occurrences older than this are recorded and never run; at least `lateAfter`. @default '24h' */
  catchUpWindow?: Duration;
  /** The most missed occurrences `missed: 'all'` runs after one gap; the newest are kept. @default 100 */
  maxCatchUp?: number;
  /**
   * Later than this, an occurrence is missed; until then it is merely late and runs as usual.
   * @default as long as the following one is not due, but at least 5 s and at most two minutes
   */
  lateAfter?: Duration;
  /**
   * How long a claim is valid without a heartbeat (1 s to 24 days); a dead replica's run is taken over after it.
   * @default '60s'
   */
  lease?: Duration;
  /**
   * How often the heartbeat renews the lease; at most a third of `lease`. One that the module's `defaults` name holds
   * for a job with a `lease` of its own only if it is short enough for that.
   * @default a quarter of `lease`
   */
  renewEvery?: Duration;
  /** Spread starts over this time by a stable hash of the name; the fire time stays. @default 0 */
  jitter?: Duration;
  /**
   * A run of the job should be done at least this often. When none was for longer, the event and alert `job.overdue`
   * says so, whatever the reason: a job that is paused is not waited for.
   * @default nothing is expected
   */
  expectSuccessWithin?: Duration;
  /** Attempts before the run is dead and waits for a person, the first one included. @default 3 */
  maxAttempts?: number;
  /** What a failed run waits for before its next attempt. @default { delay: '5s', max: '10m' } */
  backoff?: BackoffOptions;
  /**
   * Asked about what a failed attempt threw: `false` makes the run dead at once. Must answer at once, not with a
   * promise.
   * What it throws is told as the event `policy.failed`, and the error counts as retryable.
   * @default every error is retryable
   */
  retryable?: RetryableFunction;
  /** How long a run should take at most: an event says when one takes longer, and it goes on. @default none */
  budget?: Duration;
  /**
   * How long a run may take: then its signal aborts with a `TimeoutError`. When the handler ends, the attempt has
   * failed and is retried by the rules; until it does, the run stays this process', and nobody else starts it. At least
   * `budget`.
   * @default none
   */
  timeout?: Duration;
  /**
   * How long a run is kept for a handler that does not end: then its lease is renewed no more, whatever the handler
   * does, and when that has run out the next attempt starts. At least `timeout`. @default '24h'
   */
  maxRunTime?: Duration;
}

/** What happens to an occurrence that is due while an earlier run of its job still holds its lease. */
export type OverlapPolicy = 'forbid' | 'queue' | 'replace' | 'allow';

/** What happens to occurrences nobody could run in time. */
export type MissedPolicy = 'skip' | 'once' | 'all';

/** What becomes of a run that is under way when its job's flag is turned off. */
export type FlagOffPolicy = 'finish' | 'cancel';

/** Who fires a job: its own schedule, or whoever delivers its occurrences from outside. */
export type JobTrigger = 'schedule' | 'external';

/** What a job had better say itself. */
export type ImplicitOption = 'owner' | 'overlap' | 'missed';

/** Milliseconds to wait before an attempt, given how many attempts have failed so far (1, 2, …). */
export type BackoffFunction = (failedAttempts: number) => number;

/** Whether an attempt that failed with this is worth another. Only `false` ends the run. */
export type RetryableFunction = (error: unknown) => boolean;

/** Jobs that share a limit: so many of their runs go on at a time, over all replicas. */
export interface ConcurrencyGroup {
  readonly name: string;
  readonly limit: number;
}

/** How long to wait before a failed run's next attempt. */
export type Backoff =
  | { readonly kind: 'fixed'; readonly delayMs: number }
  | { readonly kind: 'exponential'; readonly delayMs: number; readonly maxMs: number }
  | { readonly kind: 'function'; readonly delay: BackoffFunction };

/**
 * The answers a job gives: overlap, missed occurrences, leases, retries, time limits. Resolved: every default filled
 * in, frozen.
 */
export interface JobPolicies {
  readonly overlap: OverlapPolicy;
  /** How many runs may go on at a time: 1 unless overlap is allowed, null for no limit. */
  readonly parallel: number | null;
  /** How many may wait in line where overlap is `queue`. */
  readonly queueLimit: number;
  readonly concurrencyGroup: ConcurrencyGroup | null;
  readonly missed: MissedPolicy;
  /** Missed occurrences older than this are recorded, never run. */
  readonly catchUpWindowMs: number;
  /** How many missed occurrences `missed: 'all'` runs at most; the newest are kept. */
  readonly maxCatchUp: number;
  /**
   * An occurrence this late or less is merely late and runs as usual; later than that it is missed. Null: in proportion
   * to the time between two occurrences.
   */
  readonly lateAfterMs: number | null;
  readonly leaseMs: number;
  readonly renewEveryMs: number;
  /** The occurrence starts at its fire time plus a stable share of this. */
  readonly jitterMs: number;
  readonly maxAttempts: number;
  readonly backoff: Backoff;
  /** Null: every error is. */
  readonly retryable: RetryableFunction | null;
  /** From this on the run is told to take long, and goes on. Null: never. */
  readonly budgetMs: number | null;
  /** From this on its signal is aborted. Null: never. */
  readonly timeoutMs: number | null;
  /** From this on its lease is renewed no more. */
  readonly maxRunTimeMs: number;
  /** The feature flag that has to be on for a start; null for none. */
  readonly flag: string | null;
  readonly flagOff: FlagOffPolicy;
  /**
   * How long after its time an occurrence of an external job that nobody delivered is started all the same; null for
   * never.
   */
  readonly fallbackMs: number | null;
  /** How often a run should be done; null where nothing is expected. */
  readonly expectSuccessWithinMs: number | null;
}

/** A named schedule with its policies, as declared by the code of this instance. */
export interface JobDefinition extends JobPolicies {
  readonly name: string;
  readonly schedule: Schedule;
  readonly owner: string | null;
  /** What neither the job nor the module's defaults say. */
  readonly implicit: readonly ImplicitOption[];
  /** Names it had before, newest first. */
  readonly previously: readonly string[];
  /** What a job made at run time was given for its handler. */
  readonly data?: unknown;
  /** Where it is declared, for people: `InvoiceService.export`, or the handler of a job made at run time. */
  readonly declaredBy: string;
}
