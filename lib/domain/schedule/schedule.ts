import { readCalendar } from './calendar.js';
import { withCalendar } from './calendar-schedule.js';
import { parseCronExpression } from './cron-expression.js';
import { checkFireTimeOptions } from './fire-time-options.js';
import { timeZoneOf } from './time-zone.js';
import { ZonedSchedule, type Schedule } from './zoned-schedule.js';

export type { Schedule } from './zoned-schedule.js';

/**
 * @param jobName spreads `H`
 * @param calendar from {@link Schedule.calendar}
 * @throws {InvalidCronExpressionError} when the expression cannot be read or never fires
 * @throws {InvalidTimeZoneError} when the zone is not an IANA region
 * @throws {InvalidCalendarError} when the calendar cannot be read, or leaves no fire time
 */
export function compileSchedule(expression: string, timeZone: string, jobName?: string, calendar: string | null = null): Schedule {
  const zone = timeZoneOf(timeZone);
  const cron = parseCronExpression(expression, { jobName });
  const schedule = new ZonedSchedule(cron, zone);
  return calendar === null ? schedule : withCalendar(schedule, readCalendar(calendar), cron.days, zone);
}

/** Where, and for which job, an expression is read: what takes it throws `InvalidCronExpressionError` and `InvalidTimeZoneError`. */
export interface ZoneOptions {
  /** An IANA name. @default 'UTC' */
  readonly timeZone?: string;
  /** Spreads `H`; needed for an expression that has it. */
  readonly jobName?: string;
}

/**
 * The next `count` fire times after `from` (exclusive).
 * @throws InvalidOptionsError with every option that is missing, wrong or unknown
 */
export function nextFireTimes(
  expression: string,
  options: ZoneOptions & { readonly from: Date; readonly count: number },
): Date[] {
  checkFireTimeOptions('nextFireTimes', expression, options, ['from', 'count']);
  return scheduleOf(expression, options).between(options.from.getTime(), Infinity, options.count).map(toDate);
}

/**
 * The last fire time strictly before `before`, or null.
 * @throws InvalidOptionsError as {@link nextFireTimes}
 */
export function previousFireTime(expression: string, options: ZoneOptions & { readonly before: Date }): Date | null {
  checkFireTimeOptions('previousFireTime', expression, options, ['before']);
  const found = scheduleOf(expression, options).previousBefore(options.before.getTime());
  return found === null ? null : toDate(found);
}

/**
 * Every fire time after `from` (exclusive) up to `to` (inclusive), at most `limit`.
 * @throws InvalidOptionsError as {@link nextFireTimes}
 */
export function fireTimesBetween(
  expression: string,
  options: ZoneOptions & { readonly from: Date; readonly to: Date; readonly limit?: number },
): Date[] {
  checkFireTimeOptions('fireTimesBetween', expression, options, ['from', 'to', 'limit']);
  return scheduleOf(expression, options).between(options.from.getTime(), options.to.getTime(), options.limit).map(toDate);
}

function scheduleOf(expression: string, { timeZone = 'UTC', jobName }: ZoneOptions): Schedule {
  return compileSchedule(expression, timeZone, jobName);
}

function toDate(epochMs: number): Date {
  return new Date(epochMs);
}
