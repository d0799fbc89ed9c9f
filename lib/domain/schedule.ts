import { readCalendar } from './calendar.js';
import { withCalendar } from './calendar-schedule.js';
import { firingIn } from './clock-change.js';
import { clockChangesOf, type ClockChange } from './clock-change-preview.js';
import { countMatches, firstMatch, lastMatch } from './cron-calendar.js';
import { parseCronExpression, type CronExpression } from './cron-expression.js';
import { checkFireTimeOptions } from './fire-time-options.js';
import { timeZoneOf, timeZoneWarning, type OffsetPeriod, type TimeZone } from './time-zone.js';

/**
 * One set of fire times: it depends on the expression and the zone alone. All instants are epoch milliseconds of whole
 * seconds; what is asked with may have any milliseconds.
 */
export interface Schedule {
  /** As it was written. */
  readonly expression: string;
  /** The IANA name, in the spelling of the tz database. */
  readonly timeZone: string;
  /** What `startAt`, `endAt` and `exclude` leave out, as text that is the same for the same fire times; null for nothing. */
  readonly calendar: string | null;
  /** What its owner should be told at start-up; empty for most. */
  readonly warnings: readonly string[];
  /** The first fire time strictly after an instant. Null past the end of time. */
  nextAfter(epochMs: number): number | null;
  /** The last fire time strictly before an instant, or null. */
  previousBefore(epochMs: number): number | null;
  /** Every fire time after `fromMs` up to and including `toMs`, ascending, at most `limit`. */
  between(fromMs: number, toMs: number, limit?: number): number[];
  /** How many fire times {@link between} has without its limit, without going through them. */
  countBetween(fromMs: number, toMs: number): number;
  /** The clock changes after `fromMs` up to `toMs`, at most a year later, that move, double or skip a fire time. */
  clockChanges(fromMs: number, toMs: number): ClockChange[];
}

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

/** More than any difference between two offsets. */
const TWO_DAYS_MS = 2 * 86_400_000;

const END_OF_TIME_MS = 8.64e15;

class ZonedSchedule implements Schedule {
  readonly expression: string;
  readonly timeZone: string;
  readonly calendar = null;
  readonly warnings: readonly string[];

  constructor(
    private readonly cron: CronExpression,
    private readonly zone: TimeZone,
  ) {
    this.expression = cron.expression;
    this.timeZone = zone.name;
    this.warnings = [dayWarning(cron), timeZoneWarning(zone.name)].filter((warning) => warning !== null);
  }

  nextAfter(epochMs: number): number | null {
    let instant = Math.floor(requireInstant(epochMs)) + 1;
    while (instant <= END_OF_TIME_MS) {
      const period = this.zone.periodAt(instant);
      const { fromMs, madeUpAtMs } = firingIn(this.cron, period);
      if (madeUpAtMs !== null && madeUpAtMs > epochMs) {
        return madeUpAtMs;
      }
      const local = firstMatch(this.cron, Math.max(instant, fromMs) + period.offsetMs);
      if (local === null) {
        return null;
      }
      const found = local - period.offsetMs;
      if (found < period.endMs) {
        return found <= END_OF_TIME_MS ? found : null;
      }
      instant = Math.max(period.endMs, this.quietUntil(period));
    }
    return null;
  }

  previousBefore(epochMs: number): number | null {
    let instant = Math.ceil(requireInstant(epochMs)) - 1;
    while (instant >= -END_OF_TIME_MS) {
      const period = this.zone.periodAt(instant);
      const { fromMs, madeUpAtMs } = firingIn(this.cron, period);
      const local = lastMatch(this.cron, Math.min(instant, period.endMs - 1) + period.offsetMs);
      const found = local === null ? null : local - period.offsetMs;
      if (found !== null && found >= fromMs) {
        return found >= -END_OF_TIME_MS ? found : null;
      }
      if (madeUpAtMs !== null && madeUpAtMs < epochMs) {
        return madeUpAtMs;
      }
      if (found === null) {
        return null;
      }
      instant = Math.min(period.startMs - 1, this.quietSince(period));
    }
    return null;
  }

  between(fromMs: number, toMs: number, limit = Infinity): number[] {
    const found: number[] = [];
    let next = limit > 0 ? this.nextAfter(fromMs) : null;
    while (next !== null && next <= toMs) {
      found.push(next);
      next = found.length < limit ? this.nextAfter(next) : null;
    }
    return found;
  }

  countBetween(fromMs: number, toMs: number): number {
    const endMs = Math.floor(requireInstant(toMs));
    let count = 0;
    let instant = Math.floor(requireInstant(fromMs)) + 1;
    while (instant <= endMs) {
      const period = this.zone.periodAt(instant);
      const { fromMs: regularFromMs, madeUpAtMs } = firingIn(this.cron, period);
      const lastMs = Math.min(endMs, period.endMs - 1);
      count += countMatches(this.cron, Math.max(instant, regularFromMs) + period.offsetMs, lastMs + period.offsetMs);
      if (madeUpAtMs !== null && madeUpAtMs >= instant && !this.matchesAt(madeUpAtMs, period)) {
        count++;
      }
      instant = period.endMs;
    }
    return count;
  }

  clockChanges(fromMs: number, toMs: number): ClockChange[] {
    return clockChangesOf(this.cron, this.zone, requireInstant(fromMs), toMs);
  }

  /**
   * No fire time lies between the end of the period and this instant, whatever the clock does there: it may go back, so
   * that what has passed in this period comes again.
   */
  private quietUntil({ endMs, offsetMs }: OffsetPeriod): number {
    const local = firstMatch(this.cron, endMs + offsetMs - TWO_DAYS_MS);
    return local === null ? Infinity : local - offsetMs - TWO_DAYS_MS;
  }

  private quietSince({ startMs, offsetMs }: OffsetPeriod): number {
    const local = lastMatch(this.cron, startMs + offsetMs + TWO_DAYS_MS);
    return local === null ? -Infinity : local - offsetMs + TWO_DAYS_MS;
  }

  private matchesAt(epochMs: number, period: OffsetPeriod): boolean {
    const local = epochMs + period.offsetMs;
    return firstMatch(this.cron, local) === local;
  }
}

/** The rule is Vixie cron's, and surprises most people: also where one field begins with `*` and still leaves days out. */
function dayWarning({ expression, days }: CronExpression): string | null {
  if (days.either) {
    return `Cron "${expression}" restricts both the day of month and the day of week; it fires when either of them matches.`;
  }
  const both = leavesOut(days.daysOfMonth, days.rulesOfMonth, 31) && leavesOut(days.daysOfWeek, days.rulesOfWeek, 7);
  return both ? `Cron "${expression}" has a day field that begins with *; it fires when both the day of month and the day of week match.` : null;
}

function leavesOut(values: readonly number[], rules: readonly unknown[], all: number): boolean {
  return values.length < all || rules.length > 0;
}

function requireInstant(epochMs: number): number {
  if (!Number.isFinite(epochMs)) {
    throw new RangeError(`An instant in epoch milliseconds is expected, not ${epochMs}.`);
  }
  return epochMs;
}

function toDate(epochMs: number): Date {
  return new Date(epochMs);
}
