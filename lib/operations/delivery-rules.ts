import type { DeliveryProblem } from '../errors/errors.js';
import type { Schedule } from '../cron/schedule.js';
import { isMissed, type LatenessRules } from '../jobs/job-cursors.js';
import { formatDuration } from '../options/duration.js';
import type { JobPolicies } from '../options/job-definition.js';
import type { RunKey, RunStatus, SkipReason } from '../options/run.js';

/** What an outside clock says about the occurrence it delivers. Milliseconds. */
export type DeliveredTime =
  /** The planned time itself. */
  | { readonly kind: 'planned'; readonly at: number }
  /** When it was sent: at the planned time or up to a minute later. */
  | { readonly kind: 'sent'; readonly at: number }
  /** Nothing: the one that is due now is meant. */
  | { readonly kind: 'now' };

/** A delivery that is not taken in. */
export interface RefusedDelivery {
  readonly problem: DeliveryProblem;
  /** A sentence without its end. */
  readonly why: string;
}

/** A delivery this long before its time, by the database's clock, waits for it: clocks differ. */
export const EARLIEST_MS = 60_000;

/** Who names no time may be so much ahead of the database, and still means the next one. */
const AHEAD_MS = 5_000;

/** How long after the planned time it may have been sent. */
const SENT_WITHIN_MS = 60_000;

/**
 * The occurrence that is meant, by the database's clock, milliseconds.
 * @returns why it is none, if it is
 */
export function occurrenceOf(
  schedule: Schedule,
  given: DeliveredTime,
  now: number,
  lateForMs: number,
): number | RefusedDelivery {
  if (given.kind === 'planned') return plannedAt(schedule, given.at, now);
  if (given.kind === 'sent') {
    const meant = dueAbout(schedule, given.at, SENT_WITHIN_MS);
    return meant === null ? offGrid(schedule, given.at) : (tooEarly(meant, now) ?? meant);
  }
  const meant = dueAbout(schedule, now, lateForMs);
  if (meant !== null) return meant;
  return {
    problem: 'nothing is due',
    why: `nothing of it is due now; name the time that is meant, ${around(schedule, now)}`,
  };
}

/** The last fire time, at most so long ago; or the next one, where a clock that is ahead of another would mean that. */
function dueAbout(schedule: Schedule, at: number, mostAgo: number): number | null {
  const last = schedule.previousBefore(at + 1) ?? -Infinity;
  const next = schedule.nextAfter(at) ?? Infinity;
  if (next - at <= AHEAD_MS && next - at < at - last) return next;
  return at - last <= mostAgo ? last : null;
}

function plannedAt(schedule: Schedule, at: number, now: number): number | RefusedDelivery {
  if (schedule.nextAfter(at - 1) !== at) return offGrid(schedule, at);
  return tooEarly(at, now) ?? at;
}

function offGrid(schedule: Schedule, at: number): RefusedDelivery {
  return {
    problem: 'off the grid',
    why: `"${schedule.expression}" (${schedule.timeZone}) has no fire time at ${iso(at)}; ${around(schedule, at)}`,
  };
}

function tooEarly(fireTime: number, now: number): RefusedDelivery | null {
  if (fireTime <= now + EARLIEST_MS) return null;
  const ahead = formatDuration(Math.round((fireTime - now) / 1_000) * 1_000);
  return {
    problem: 'too early',
    why: `${iso(fireTime)} is still ${ahead} away by the database's clock; deliver it when it is due, at most ${formatDuration(EARLIEST_MS)} before`,
  };
}

function around(schedule: Schedule, at: number): string {
  const before = schedule.previousBefore(at);
  const after = schedule.nextAfter(at);
  const nearest = [before, after].flatMap((found) => (found === null ? [] : [iso(found)]));
  if (nearest.length === 0) return 'it has none at all';
  return `the nearest ${nearest.length === 1 ? 'is' : 'are'} ${nearest.join(' and ')}`;
}

/** What is known about a delivered occurrence that has no row yet. */
export interface DeliveredOccurrence {
  readonly fireTime: number;
  readonly now: number;
  /** A later occurrence of the job has been started, or waits. */
  readonly isSuperseded: boolean;
}

/**
 * What the missed rule says to an occurrence that is delivered late.
 * @returns why it is recorded and not run; null when it runs
 */
export function lateness(
  { fireTime, now, isSuperseded }: DeliveredOccurrence,
  job: Omit<LatenessRules, 'jitterMs'> & Pick<JobPolicies, 'missed'>,
): SkipReason | null {
  const { missed } = job;
  if (now - fireTime >= job.catchUpWindowMs) return 'missed: too old';
  // Until then the schedule itself would run it.
  if (!isMissed({ ...job, jitterMs: 0 }, fireTime, now) || missed === 'all') return null;
  if (missed === 'skip') return 'missed: skipped';
  return isSuperseded ? 'missed: superseded by a newer one' : null;
}

function iso(millis: number): string {
  return new Date(millis).toISOString();
}

/** What became of a delivery. */
export interface Delivered extends RunKey {
  /** The occurrence had its decision before: nothing was changed. */
  readonly duplicate: boolean;
  readonly status: RunStatus;
  /** Why it does not run, or not yet; null where nothing needs to be said. */
  readonly reason: string | null;
  /** The same as a sentence, for people. */
  readonly text: string;
}

/** Of those nothing follows by itself. */
const ENDED: readonly RunStatus[] = ['done', 'dead', 'skipped', 'cancelled'];

/** Whether the run is over, for good or until a person says otherwise. */
export function hasEnded({ status }: Pick<Delivered, 'status'>): boolean {
  return ENDED.includes(status);
}

export function delivered(key: RunKey, row: Pick<Delivered, 'status' | 'reason'>, duplicate: boolean): Delivered {
  const { jobName, fireTime } = key;
  const { status, reason } = row;
  const is = `${jobName} of ${fireTime.toISOString()} is ${status}${reason && status !== 'running' ? ` (${reason})` : ''}`;
  return {
    jobName,
    fireTime,
    duplicate,
    status,
    reason,
    text: `${is}${duplicate ? '; this delivery changed nothing' : ''}.`,
  };
}
