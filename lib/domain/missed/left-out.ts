import { calendarText } from '../schedule/calendar.js';
import { compileSchedule, type Schedule } from '../schedule/schedule.js';

/**
 * Which rule of its calendar keeps a schedule from firing at a time at which its expression has a fire time.
 * @param at epoch milliseconds
 * @param jobName spreads `H`
 * @returns null when no rule does
 */
export function leftOutBy({ expression, timeZone, calendar }: Schedule, at: number, jobName: string): string | null {
  const firesBy = (rules: string | null) => compileSchedule(expression, timeZone, jobName, rules).nextAfter(at - 1) === at;
  if (calendar === null || firesBy(calendar) || !firesBy(null)) return null;
  const { startAt, endAt, exclude = [] } = JSON.parse(calendar) as { startAt?: string; endAt?: string; exclude?: string[] };
  if (startAt !== undefined && at < Date.parse(startAt)) return `startAt: ${startAt}`;
  if (endAt !== undefined && at >= Date.parse(endAt)) return `endAt: ${endAt}`;
  const day = exclude.find((item) => !firesBy(calendarText({ exclude: [item] })));
  return day === undefined ? null : `exclude: ${day}`;
}
