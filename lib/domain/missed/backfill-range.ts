import { monthOf } from '../schedule/months.js';
import type { Schedule } from '../schedule/schedule.js';

/** Each month is a partition of two tables, and every claim plans with all of them. */
const MOST_MONTHS = 120;

/** The occurrences a backfill is about, ascending, in milliseconds; or what is wrong with the range. */
export type BackfillRange = { readonly fireTimes: readonly number[] } | { readonly problem: string };

/**
 * The fire times from `from` to `to`, both included.
 * @param now the database's clock, milliseconds
 */
export function backfillRange(schedule: Schedule, range: { from: unknown; to: unknown }, now: number, atMost: number): BackfillRange {
  const { from, to } = range;
  if (!isInstant(from)) return { problem: `from: expected a valid Date, got ${said(from)}.` };
  if (!isInstant(to)) return { problem: `to: expected a valid Date, got ${said(to)}.` };
  if (from > to) return { problem: `from (${iso(from)}) is later than to (${iso(to)}): exchange them.` };
  // The end of a day that is not over, or a clock that is a little ahead, does no harm while nothing comes due until then.
  const toCome = schedule.nextAfter(now);
  if (toCome !== null && toCome <= to.getTime()) {
    return { problem: `to (${iso(to)}) is later than the database's clock (${iso(now)}), and the occurrence of ${iso(toCome)} is still to come: it is the schedule's. Give an earlier end.` };
  }
  const after = from.getTime() - 1;
  const count = schedule.countBetween(after, to.getTime());
  if (count === 0) return { problem: `"${schedule.expression}" (${schedule.timeZone}) has no fire time from ${iso(from)} to ${iso(to)}${nearest(schedule, from, to)}.` };
  if (count > atMost) {
    return { problem: `there are ${count} occurrences from ${iso(from)} to ${iso(to)}, and atMost allows ${atMost}: give a shorter range, or a larger atMost.` };
  }
  const fireTimes = schedule.between(after, to.getTime());
  const months = new Set(fireTimes.map((fireTime) => monthOf(new Date(fireTime)).getTime())).size;
  if (months > MOST_MONTHS) {
    return { problem: `the occurrences lie in ${months} months, and each month needs partitions that every claim has to plan with: give ranges of at most ${MOST_MONTHS} months.` };
  }
  return { fireTimes };
}

function nearest(schedule: Schedule, from: Date, to: Date): string {
  const around = [schedule.previousBefore(from.getTime()), schedule.nextAfter(to.getTime())].filter((at) => at !== null);
  return around.length === 0 ? '' : `; the nearest ${around.length === 1 ? 'is' : 'are'} ${around.map(iso).join(' and ')}`;
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
