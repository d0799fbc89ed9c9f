import type { JobPolicies } from '../options/job-definition.js';

/** What happens to a run because of the time it has taken. */
export type Limit =
  /** It is told to take longer than it should. */
  | 'budget'
  /** Its signal is aborted. */
  | 'timeout'
  /** It has not ended, though it was told to, or though its time is over and it never is told: it is stuck. */
  | 'stuck'
  /** Its signal is aborted, if it was not; its lease is renewed no more. */
  | 'maxRunTime';

/** How long a handler gets to end before it is called stuck, in milliseconds. */
export const STUCK_AFTER_MS = 5_000;

/** A limit and when it is reached, in milliseconds since the start of the handler. */
export interface TimedLimit {
  readonly limit: Limit;
  readonly atMs: number;
}

/**
 * The limits of a run, in the order they are reached.
 * @param stoppedAtMs when its signal was aborted, in milliseconds since its start; null when it was not
 */
export function limitsOf(
  { budgetMs, timeoutMs, maxRunTimeMs }: Pick<JobPolicies, 'budgetMs' | 'timeoutMs' | 'maxRunTimeMs'>,
  stoppedAtMs: number | null,
): TimedLimit[] {
  // A job without a timeout is never told to stop, so its budget is the only sign.
  const overdueAtMs = stoppedAtMs ?? (timeoutMs === null ? budgetMs : null);
  const limits: { limit: Limit; atMs: number | null }[] = [
    { limit: 'budget', atMs: budgetMs },
    { limit: 'timeout', atMs: timeoutMs },
    { limit: 'stuck', atMs: overdueAtMs === null ? null : overdueAtMs + STUCK_AFTER_MS },
    { limit: 'maxRunTime', atMs: maxRunTimeMs },
  ];
  return limits.filter((one): one is TimedLimit => one.atMs !== null).sort((a, b) => a.atMs - b.atMs);
}
