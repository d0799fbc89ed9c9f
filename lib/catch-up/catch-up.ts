import type { JobPolicies } from '../options/job-definition.js';
import { type LatenessRules, missedUntil } from '../jobs/job-cursors.js';
import type { SkipReason } from '../options/run.js';
import { gap, type DecidedSpan, type MissedGap, UndecidedFireTimes } from '../jobs/undecided.js';

/** What becomes of the missed occurrences of one job. */
export interface CatchUpPlan {
  /** Fire times to run, oldest first, milliseconds. */
  readonly run: readonly number[];
  readonly record: readonly MissedGap[];
  /** Once the plan is written, everything up to here is decided. Milliseconds. */
  readonly decidedUntil: number;
}

/** The time a catch-up decides about. Instants are epoch milliseconds. */
interface CatchUpWindow {
  /** Everything up to here is decided; exclusive. */
  readonly from: number;
  /** The database's clock. */
  readonly now: number;
  /** When an operator held the job back, in any order: what came due then is not missed. */
  readonly held: readonly HeldSpan[];
}

/** A job held back by an operator. Milliseconds: a fire time at `since` is held, one at `until` is not. */
export interface HeldSpan {
  readonly since: number;
  /** Infinity while it lasts. */
  readonly until: number;
  readonly reason: 'paused' | 'disabled';
}

/**
 * Decides about every missed fire time that has no decision yet: run it or record it. What came due while the job was
 * held back is recorded as that; the others are decided as if it did not exist. Fire times are compared with the rows
 * there are, never with the newest row: an earlier one may be missing behind it. An occurrence that is due by now and
 * not missed runs as usual: for `once` it is the newest, and no missed one runs beside it. The work is in proportion to
 * what is run and to the rows, not to the length of the gap.
 */
export function planCatchUp(
  job: LatenessRules & Pick<JobPolicies, 'missed' | 'maxCatchUp'>,
  window: CatchUpWindow,
  decided: readonly DecidedSpan[],
): CatchUpPlan {
  const { schedule } = job;
  const { from, now } = window;
  const end = Math.max(from, missedUntil(now, job));
  const oldest = Math.min(end, Math.max(from, now - job.catchUpWindowMs));
  const holds = holdsWithin(window.held, from, end);
  const passedOver = [...decided, ...holds];
  const late = new UndecidedFireTimes(schedule, end, Math.max(end, now), holdsWithin(window.held, end, now)).ends();
  // The only one that is late is the newest that was not run. Where several are, being late is nothing out of the
  // ordinary.
  const most = job.missed === 'once' && late !== null && late.from === late.until ? 0 : atMost(job);
  const run = new UndecidedFireTimes(schedule, oldest, end, passedOver).newest(most);
  const left = new UndecidedFireTimes(schedule, oldest, run.length > 0 ? run[0]! - 1 : end, passedOver);
  const tooOld = new UndecidedFireTimes(schedule, from, oldest, passedOver);
  const held = holds.map((hold) =>
    gap(new UndecidedFireTimes(schedule, hold.from - 1, hold.until, decided), hold.reason),
  );
  return {
    run,
    record: [gap(tooOld, 'missed: too old'), gap(left, leftOut(job)), ...held].filter((row) => row !== null),
    decidedUntil: end,
  };
}

/** The holds as spans with both ends included, later than `from`. Where they overlap, the earlier one counts. */
function holdsWithin(held: readonly HeldSpan[], from: number, end: number): (DecidedSpan & Pick<HeldSpan, 'reason'>)[] {
  let taken = from;
  const spans = [];
  for (const { since, until, reason } of [...held].sort((a, b) => a.since - b.since || b.until - a.until)) {
    const span = { from: Math.max(taken + 1, Math.ceil(since)), until: Math.min(end, Math.ceil(until) - 1), reason };
    if (span.from > span.until) continue;
    spans.push(span);
    taken = span.until;
  }
  return spans;
}

function atMost({ missed, maxCatchUp }: Pick<JobPolicies, 'missed' | 'maxCatchUp'>): number {
  return { skip: 0, once: 1, all: maxCatchUp }[missed];
}

function leftOut({ missed }: Pick<JobPolicies, 'missed'>): SkipReason {
  const reasons = {
    skip: 'missed: skipped',
    once: 'missed: superseded by a newer one',
    all: 'missed: too many',
  } as const;
  return reasons[missed];
}
