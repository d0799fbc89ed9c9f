import { monthOf } from '../options/retention.js';
import type { RunStatus } from '../options/run.js';
import type { Schedule } from '../cron/schedule.js';

/** What the row of an occurrence says, where it has one. Instants are epoch milliseconds. */
export interface OccurrenceRow {
  readonly fireTime: number;
  readonly status: RunStatus;
  readonly attempt: number;
  readonly reason: string | null;
  readonly gapFrom: number | null;
  readonly gapCount: number | null;
}

/** Where an occurrence stands for a backfill; one that ran as another name of its job is never run under this one. */
export type Standing = 'never ran' | 'under way' | 'ran' | 'ran as another name';

/** What the reason of a row begins with that says: decided under the name that follows. */
export const DECIDED_AS = 'decided as ';

/** What a backfill does next, and how far it has come then. */
export interface FeedPlan {
  /** Occurrences without a row. */
  readonly insert: readonly number[];
  /** Rows that are to be run: they never ran, or are to run again. */
  readonly reopen: readonly OccurrenceRow[];
  readonly leftAlone: number;
  /** Every fire time up to here is queued or left alone. */
  readonly fedUntil: number;
  /** Set when it goes no further for now: nothing may be queued, or the schedule itself has still to decide. */
  readonly stop: 'no room' | 'not decided yet' | null;
}

/** A cancelled run counts as one that never ran unless it was started before. */
export function standingOf(row: Pick<OccurrenceRow, 'status' | 'attempt'> | undefined): Standing {
  switch (row?.status) {
    case undefined:
    case 'skipped':
      return 'never ran';
    case 'cancelled':
      return row!.attempt === 0 ? 'never ran' : 'ran';
    case 'done':
    case 'dead':
      return 'ran';
    default:
      return 'under way';
  }
}

/**
 * The same for a job that was decided under other names before. What ran under one of those has its keys and its
 * receipts.
 * @param elsewhere where the occurrence stands under those, if it has a row there
 */
export function standingAmongNames(
  row: Pick<OccurrenceRow, 'status' | 'attempt' | 'reason'> | undefined,
  elsewhere: Standing | undefined,
): Standing {
  const own = standingOf(row);
  if (own !== 'never ran') return own;
  const isDecidedElsewhere = row?.reason?.startsWith(DECIDED_AS) ?? false;
  const there = elsewhere ?? (isDecidedElsewhere ? 'ran' : 'never ran');
  return there === 'ran' ? 'ran as another name' : there;
}

/**
 * Goes through fire times in their order and decides which are queued. What somebody has in hand is left alone, and so
 * is what ran, unless it is to be replayed.
 * @param fireTimes ascending
 * @param elsewhere where occurrences stand under other names of the job
 * @param liveAfter an occurrence later than this is still the schedule's own while it has no row
 */
export function planFeed(
  fireTimes: readonly number[],
  rows: ReadonlyMap<number, OccurrenceRow>,
  { after, room, replay, liveAfter }: { after: number; room: number; replay: boolean; liveAfter: number },
  elsewhere: ReadonlyMap<number, Standing> = new Map(),
): FeedPlan {
  const insert: number[] = [];
  const reopen: OccurrenceRow[] = [];
  let leftAlone = 0;
  let fedUntil = after;
  const plan = (stop: FeedPlan['stop']): FeedPlan => ({ insert, reopen, leftAlone, fedUntil, stop });
  for (const fireTime of fireTimes) {
    const row = rows.get(fireTime);
    const standing = standingAmongNames(row, elsewhere.get(fireTime));
    if (standing === 'never ran' || (standing === 'ran' && replay)) {
      if (!row && fireTime > liveAfter) return plan('not decided yet');
      if (insert.length + reopen.length >= room) return plan('no room');
      if (row) reopen.push(row);
      else insert.push(fireTime);
    } else {
      leftAlone += 1;
    }
    fedUntil = fireTime;
  }
  return plan(null);
}

/**
 * Whose row stands for a gap when the one that did is run: the latest fire time of the gap without a row of its own.
 * @param gap both ends included; the row that stood for it is that of `until`
 * @param taken fire times of the gap that have a row
 */
export function heirOfGap(
  schedule: Schedule,
  gap: { from: number; until: number },
  taken: ReadonlySet<number>,
): number | null {
  let at = schedule.previousBefore(gap.until);
  while (at !== null && at >= gap.from && taken.has(at)) at = schedule.previousBefore(at);
  return at !== null && at >= gap.from ? at : null;
}

/** Each month is a partition of two tables, and every claim plans with all of them. */
const MOST_MONTHS = 120;

/** The occurrences a backfill is about, ascending, in milliseconds; or what is wrong with the range. */
type BackfillRange = { readonly fireTimes: readonly number[] } | { readonly problem: string };

/**
 * The fire times from `from` to `to`, both included.
 * @param now the database's clock, milliseconds
 */
export function backfillRange(
  schedule: Schedule,
  range: { from: unknown; to: unknown },
  now: number,
  atMost: number,
): BackfillRange {
  const { from, to } = range;
  if (!isInstant(from)) return { problem: `from: expected a valid Date, got ${said(from)}.` };
  if (!isInstant(to)) return { problem: `to: expected a valid Date, got ${said(to)}.` };
  if (from > to) return { problem: `from (${iso(from)}) is later than to (${iso(to)}): exchange them.` };
  // The end of a day that is not over, or a clock that is a little ahead, does no harm while nothing comes due until
  // then.
  const toCome = schedule.nextAfter(now);
  if (toCome !== null && toCome <= to.getTime()) {
    return {
      problem: `to (${iso(to)}) is later than the database's clock (${iso(now)}), and the occurrence of ${iso(toCome)} is still to come: it is the schedule's. Give an earlier end.`,
    };
  }
  const after = from.getTime() - 1;
  const count = schedule.countBetween(after, to.getTime());
  if (count === 0)
    return {
      problem: `"${schedule.expression}" (${schedule.timeZone}) has no fire time from ${iso(from)} to ${iso(to)}${nearest(schedule, from, to)}.`,
    };
  if (count > atMost) {
    return {
      problem: `there are ${count} occurrences from ${iso(from)} to ${iso(to)}, and atMost allows ${atMost}: give a shorter range, or a larger atMost.`,
    };
  }
  const fireTimes = schedule.between(after, to.getTime());
  const months = new Set(fireTimes.map((fireTime) => monthOf(new Date(fireTime)).getTime())).size;
  if (months > MOST_MONTHS) {
    return {
      problem: `the occurrences lie in ${months} months, and each month needs partitions that every claim has to plan with: give ranges of at most ${MOST_MONTHS} months.`,
    };
  }
  return { fireTimes };
}

function nearest(schedule: Schedule, from: Date, to: Date): string {
  const around = [schedule.previousBefore(from.getTime()), schedule.nextAfter(to.getTime())].filter(
    (at) => at !== null,
  );
  return around.length === 0
    ? ''
    : `; the nearest ${around.length === 1 ? 'is' : 'are'} ${around.map(iso).join(' and ')}`;
}

function isInstant(value: unknown): value is Date {
  return value instanceof Date && Number.isFinite(value.getTime());
}

function said(value: unknown): string {
  return value instanceof Date ? 'an invalid one' : typeof value === 'string' ? JSON.stringify(value) : String(value);
}

function iso(instant: Date | number): string {
  return new Date(instant).toISOString();
}
