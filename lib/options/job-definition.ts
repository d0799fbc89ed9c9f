import type { Schedule } from '../cron/schedule.js';

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
