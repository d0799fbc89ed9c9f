import { planSuperseded, type MissedGap } from './catch-up.js';
import { compileSchedule, type Schedule } from '../cron/schedule.js';
import type { DecidedSpan } from './undecided.js';

/** A schedule that holds no longer. Everything of it up to `decidedUntil` is decided; milliseconds. */
export interface ReplacedSchedule {
  readonly name: string;
  readonly cron: string;
  readonly timeZone: string;
  readonly calendar: string | null;
  readonly decidedUntil: number;
}

/**
 * What becomes of the occurrences that a schedule leaves undecided when it is replaced: they are recorded, never run.
 * @param replacedAt milliseconds
 * @returns null when there are none, also of a schedule that cannot be read here
 */
export function planReplaced(
  replaced: ReplacedSchedule,
  decided: readonly DecidedSpan[],
  replacedAt: number,
): MissedGap | null {
  const schedule = readable(replaced);
  return schedule && planSuperseded(schedule, { from: replaced.decidedUntil, until: replacedAt }, decided);
}

/** A person, or a newer version of this library, may have stored what this one cannot read. */
function readable({ cron, timeZone, calendar, name }: ReplacedSchedule): Schedule | null {
  try {
    return compileSchedule(cron, timeZone, name, calendar);
  } catch {
    return null;
  }
}
