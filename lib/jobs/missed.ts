import { LEAST_LATE_MS, MOST_LATE_MS } from '../options/defaults.js';
import type { JobDefinition } from '../options/job-definition.js';

/** What says when an occurrence of a job is missed. */
export type LatenessRules = Pick<
  JobDefinition,
  'schedule' | 'lateAfterMs' | 'catchUpWindowMs' | 'jitterMs' | 'fallbackMs'
>;

/** How long any occurrence of the job is merely late at most, in milliseconds. */
export function mostLateMs({
  lateAfterMs,
  catchUpWindowMs,
}: Pick<LatenessRules, 'lateAfterMs' | 'catchUpWindowMs'>): number {
  return lateAfterMs ?? Math.min(MOST_LATE_MS, catchUpWindowMs);
}

/**
 * True when an occurrence that is due is not merely late but missed. Unless `lateAfter` says otherwise, it is as soon as
 * the following one is due; but not within the first five seconds, and always after two minutes.
 * @param following the job's next fire time, milliseconds; asked for only when it matters
 */
export function isMissed(
  job: LatenessRules,
  fireTime: number,
  now: number,
  following = (): number | null => job.schedule.nextAfter(fireTime),
): boolean {
  const lateMs = startsDueUntil(job, now) - fireTime;
  if (lateMs >= mostLateMs(job)) return true;
  return job.lateAfterMs === null && lateMs >= LEAST_LATE_MS && lateMs >= (following() ?? Infinity) - fireTime;
}

/** Fire times up to here are missed, as {@link isMissed} says of each; later ones are late, or not due. Milliseconds. */
export function missedUntil(now: number, job: LatenessRules): number {
  const dueUntil = startsDueUntil(job, now);
  const certainly = dueUntil - mostLateMs(job);
  if (job.lateAfterMs !== null) return certainly;
  // Of all that are due only the newest has its following one still to come.
  const newest = job.schedule.previousBefore(Math.floor(dueUntil) + 1) ?? Infinity;
  return Math.max(certainly, Math.min(dueUntil - LEAST_LATE_MS, newest - 1));
}

/** The starts of fire times up to here are due, whatever the job's share of its jitter. Milliseconds. */
function startsDueUntil({ jitterMs, fallbackMs }: LatenessRules, now: number): number {
  return now - (fallbackMs ?? jitterMs);
}
