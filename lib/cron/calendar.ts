import { invalidCalendar } from '../errors/errors.js';
import { MONTHS_OF_A_CYCLE, matchingDays, monthOf, nextMonth, type DayFields, type Month } from './cron-days.js';
import { parseCronExpression } from './cron-expression.js';

/** What a schedule leaves out of what its expression says, and who fires it. */
export interface CalendarRules {
  /** `external`: its fire times are those that may be delivered, and nothing here fires them. */
  readonly trigger?: 'schedule' | 'external' | undefined;
  /** The first instant at which it may fire. */
  readonly startAt?: Date | undefined;
  /** It fires before this instant only. */
  readonly endAt?: Date | undefined;
  /**
   * Days of the schedule's zone: dates (`2026-12-25`), or cron expressions that say nothing but days (`* * 25 12 *`).
   */
  readonly exclude?: readonly string[] | undefined;
}

/** Rules that were read. Instants are epoch milliseconds; a day is counted from 1970-01-01, as a local date. */
export interface Calendar {
  /** The same for the same rules. */
  readonly text: string;
  /** See {@link CalendarRules.trigger}. */
  readonly isExternal: boolean;
  /** -Infinity without one. */
  readonly startAtMs: number;
  /** Not included; Infinity without one. */
  readonly endAtMs: number;
  excludes(day: number): boolean;
  /** Whether it leaves any of these days. */
  leavesSome(days: DayFields): boolean;
}

const DAY_MS = 86_400_000;

/** Each is looked at for each day. */
const MOST_EXCLUDED = 1_000;

const DATE = /^\d{4}-\d{2}-\d{2}$/;

/** @returns null when nothing is left out, and the schedule fires by itself */
export function calendarText({ trigger, startAt, endAt, exclude = [] }: CalendarRules): string | null {
  const days = [...new Set(exclude.map((item) => item.trim().replace(/\s+/g, ' ')))].sort();
  const external = trigger === 'external';
  if (!external && !startAt && !endAt && days.length === 0) return null;
  const limits = {
    startAt: startAt?.toISOString(),
    endAt: endAt?.toISOString(),
    exclude: days.length > 0 ? days : undefined,
  };
  return JSON.stringify({ trigger: external ? trigger : undefined, ...limits });
}

/**
 * @param text from {@link calendarText}
 * @throws InvalidScheduleError, InvalidScheduleError
 */
export function readCalendar(text: string): Calendar {
  const { trigger, startAt, endAt, exclude = [] } = parsed(text);
  if (trigger !== undefined && trigger !== 'external') throw invalidCalendar(`trigger: "${trigger}" is unknown here`);
  const startAtMs = startAt === undefined ? -Infinity : instantOf('startAt', startAt);
  const endAtMs = endAt === undefined ? Infinity : instantOf('endAt', endAt);
  if (startAtMs >= endAtMs) throw invalidCalendar(`startAt (${startAt}) must be before endAt (${endAt})`);
  if (exclude.length > MOST_EXCLUDED)
    throw invalidCalendar(`exclude: expected at most ${MOST_EXCLUDED} dates and expressions, got ${exclude.length}`);
  return new DaysLeftOut(text, trigger !== undefined, startAtMs, endAtMs, exclude);
}

/** Whether a stored calendar says that nothing here fires the schedule; also of one that cannot be read otherwise. */
export function isExternalCalendar(text: string | null): boolean {
  if (text === null) return false;
  try {
    return parsed(text).trigger === 'external';
  } catch {
    return false;
  }
}

class DaysLeftOut implements Calendar {
  private readonly dates: ReadonlySet<number>;
  private readonly expressions: readonly DayFields[];
  /** Of the month that was asked for last: days are looked at one after the other. */
  private last: { readonly month: Month; readonly days: number } | null = null;

  constructor(
    readonly text: string,
    readonly isExternal: boolean,
    readonly startAtMs: number,
    readonly endAtMs: number,
    exclude: readonly string[],
  ) {
    this.dates = new Set(exclude.filter((item) => DATE.test(item)).map(dayOf));
    this.expressions = exclude.filter((item) => !DATE.test(item)).map(daysOf);
  }

  excludes(day: number): boolean {
    if (this.dates.has(day)) return true;
    if (this.expressions.length === 0) return false;
    if (!this.last || day < this.last.month.firstDay || day >= this.last.month.firstDay + this.last.month.length) {
      const month = monthOf(day);
      this.last = { month, days: this.matching(month) };
    }
    return (this.last.days & (1 << (day - this.last.month.firstDay))) !== 0;
  }

  leavesSome(days: DayFields): boolean {
    let month = monthOf(0);
    for (let i = 0; i < MONTHS_OF_A_CYCLE; i++) {
      if ((matchingDays(days, month) & ~this.matching(month)) !== 0) return true;
      month = nextMonth(month);
    }
    return false;
  }

  /** As bits; by expressions alone: dates are few, and days come again. */
  private matching(month: Month): number {
    return this.expressions.reduce((bits, days) => bits | matchingDays(days, month), 0);
  }
}

function parsed(text: string): { trigger?: string; startAt?: string; endAt?: string; exclude?: string[] } {
  try {
    const read: unknown = JSON.parse(text);
    if (typeof read === 'object' && read !== null) return read;
  } catch {
    // Said below.
  }
  throw invalidCalendar(`the calendar ${JSON.stringify(text)} cannot be read`);
}

function instantOf(name: string, text: string): number {
  const instant = Date.parse(text);
  if (Number.isNaN(instant)) throw invalidCalendar(`${name}: "${text}" is no instant`);
  return instant;
}

function dayOf(date: string): number {
  const instant = Date.parse(`${date}T00:00:00Z`);
  const exists = !Number.isNaN(instant) && new Date(instant).toISOString().startsWith(date);
  if (!exists) throw invalidCalendar(`exclude: there is no day ${date}`);
  return instant / DAY_MS;
}

function daysOf(expression: string): DayFields {
  const { hours, minutes, days } = parseCronExpression(expression);
  if (hours.length === 24 && minutes.length === 60) return days;
  throw invalidCalendar(
    `exclude: "${expression}" names times of day, but whole days are left out: write * for the minute and the hour, as in "* * 25 12 *"`,
  );
}
