import type { Duration } from '../domain/duration.js';
import type { BackoffFunction, MissedPolicy, OverlapPolicy } from '../domain/job-definition.js';

/**
 * How long to wait before a failed run's next attempt: a fixed time, a growing one (doubling from `delay` up to `max`,
 * ten minutes by default, each with up to a fifth of jitter), or a function of the number of failed attempts that
 * returns milliseconds.
 */
export type BackoffOptions =
  | Duration
  | { delay: Duration; max?: Duration }
  | BackoffFunction;

/** What a job may say about itself, beside its expression. Durations are milliseconds or strings such as `'30s'`. */
export interface DistributedCronOptions {
  /**
   * The job's identity in the database, the same on every replica and across deploys; at most 200 characters.
   * @default `ClassName.methodName`
   */
  name?: string;
  /**
   * The name, or names, this job had before. Under its new name it goes on where it was under the old one, with the same
   * pauses, and waiting runs of the old name are finished here. It begins when no live instance declares the old name.
   */
  previously?: string | readonly string[];
  /** IANA zone the expression is read in. @default 'UTC' */
  timeZone?: string;
  /** The team that answers for the job. */
  owner?: string;
  /**
   * `forbid`: an occurrence due while an earlier run still holds its lease is recorded as skipped.
   * `allow`: it runs beside it.
   * @default 'forbid'
   */
  overlap?: OverlapPolicy;
  /**
   * Occurrences nobody ran in time: `skip` all, run the newest `once`, or run `all` of them, oldest first. Where just one
   * newer occurrence is late, `once` leaves it at that.
   * @default 'once'
   */
  missed?: MissedPolicy;
  /** Missed occurrences older than this are recorded and never run; at least `lateAfter`. @default '24h' */
  catchUpWindow?: Duration;
  /** The most missed occurrences `missed: 'all'` runs after one gap; the newest are kept. @default 100 */
  maxCatchUp?: number;
  /** Later than this, an occurrence is missed; until then it is merely late and runs as usual. @default '2m' */
  lateAfter?: Duration;
  /** How long a claim is valid without a heartbeat (1 s to 24 days); a dead replica's run is taken over after it. @default '60s' */
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
   * A run of the job should be done at least this often. When none was for longer, the event and alert `job.overdue` says so,
   * whatever the reason: a job that is paused is not waited for.
   * @default nothing is expected
   */
  expectSuccessWithin?: Duration;
  /** Attempts before the run is dead and waits for a person, the first one included. @default 3 */
  maxAttempts?: number;
  /** What a failed run waits for before its next attempt. @default { delay: '5s', max: '10m' } */
  backoff?: BackoffOptions;
}
