import { invalidCalendar } from '../errors/errors.js';
import { MONTHS_OF_A_CYCLE, matchingDays, monthOf, nextMonth, type DayFields, type Month } from './cron-days.js';
import { parseCronExpression } from './cron-expression.js';
import type { ClockChange } from './clock-changes.js';
import type { OffsetPeriod, TimeZone } from './time-zone.js';
import { fireTimesBetween, type Schedule } from './zoned-schedule.js';

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
interface Calendar {
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

/** After 400 years the calendar repeats. */
const CYCLE_MS = 401 * 366 * DAY_MS;

/**
 * A schedule without what a calendar leaves out.
 * @param days those of the schedule's expression
 * @throws InvalidScheduleError when no fire time is left: whoever asked for the next one would look for ever
 */
export function withCalendar(schedule: Schedule, calendar: Calendar, days: DayFields, zone: TimeZone): Schedule {
  if (!calendar.leavesSome(days))
    throw invalidCalendar(`exclude leaves no day on which "${schedule.expression}" fires`);
  const { startAtMs, endAtMs } = calendar;
  const limited = new CalendarSchedule(schedule, calendar, zone);
  const some = endAtMs === Infinity || limited.previousBefore(endAtMs) !== null;
  if (some) return limited;
  const span = startAtMs === -Infinity ? '' : `between startAt (${iso(startAtMs)}) and `;
  throw invalidCalendar(
    `"${schedule.expression}" (${schedule.timeZone}) never fires ${span}before endAt (${iso(endAtMs)})`,
  );
}

/**
 * Excluded days are jumped over whole, so that the work is in proportion to the days, not to the fire times on them. A
 * day is a local date; it is looked at within one period of the zone, in which dates only go up.
 */
class CalendarSchedule implements Schedule {
  constructor(
    private readonly schedule: Schedule,
    private readonly days: Calendar,
    private readonly zone: TimeZone,
  ) {}

  get expression(): string {
    return this.schedule.expression;
  }

  get timeZone(): string {
    return this.schedule.timeZone;
  }

  get warnings(): readonly string[] {
    return this.schedule.warnings;
  }

  get calendar(): string {
    return this.days.text;
  }

  get isExternal(): boolean {
    return this.days.isExternal;
  }

  nextAfter(epochMs: number): number | null {
    let after = Math.max(epochMs, this.days.startAtMs - 1);
    const last = Math.min(this.days.endAtMs - 1, after + CYCLE_MS);
    for (;;) {
      const at = this.schedule.nextAfter(after);
      if (at === null || at > last) return null;
      const period = this.zone.periodAt(at);
      const day = dayAt(at, period);
      if (!this.days.excludes(day)) return at;
      after = this.startOf(this.nextDay(day, dayAt(period.endMs, period), false), period) - 1;
    }
  }

  previousBefore(epochMs: number): number | null {
    let before = Math.min(epochMs, this.days.endAtMs);
    const first = Math.max(this.days.startAtMs, before - CYCLE_MS);
    for (;;) {
      const at = this.schedule.previousBefore(before);
      if (at === null || at < first) return null;
      const period = this.zone.periodAt(at);
      let day = dayAt(at, period);
      if (!this.days.excludes(day)) return at;
      for (const firstDay = dayAt(period.startMs, period); day >= firstDay && this.days.excludes(day); ) day--;
      before = Math.max((day + 1) * DAY_MS - period.offsetMs, period.startMs);
    }
  }

  between(fromMs: number, toMs: number, limit = Infinity): number[] {
    return fireTimesBetween(this, fromMs, toMs, limit);
  }

  countBetween(fromMs: number, toMs: number): number {
    const from = Math.max(Math.floor(fromMs), this.days.startAtMs - 1);
    const to = Math.min(Math.floor(toMs), this.days.endAtMs - 1);
    if (to <= from) return 0;
    let count = this.schedule.countBetween(from, to);
    for (let instant = Math.floor(from) + 1; instant <= to; ) {
      const period = this.zone.periodAt(instant);
      const lastDay = dayAt(Math.min(period.endMs - 1, to), period);
      const day = this.nextDay(dayAt(instant, period) - 1, lastDay, true);
      const excludedFrom = Math.max(instant, this.startOf(day, period));
      instant = this.startOf(this.nextDay(day, lastDay, false), period);
      if (day <= lastDay) count -= this.schedule.countBetween(excludedFrom - 1, Math.min(instant - 1, to));
    }
    return count;
  }

  clockChanges(fromMs: number, toMs: number): ClockChange[] {
    const { startAtMs, endAtMs } = this.days;
    return this.schedule.clockChanges(fromMs, toMs).filter(({ at, localTimes }) => {
      const day = Date.parse(`${localTimes[0]!.slice(0, 10)}T00:00:00Z`) / DAY_MS;
      return at >= startAtMs && at < endAtMs && !this.days.excludes(day);
    });
  }

  /** The first day after this one that is excluded, or is not; the day after `last` when none is. */
  private nextDay(day: number, last: number, excluded: boolean): number {
    let next = day + 1;
    while (next <= last && this.days.excludes(next) !== excluded) next++;
    return next;
  }

  /** The first instant of a day, or of the next period. */
  private startOf(day: number, { endMs, offsetMs }: OffsetPeriod): number {
    return Math.min(day * DAY_MS - offsetMs, endMs);
  }
}

function dayAt(epochMs: number, { offsetMs }: OffsetPeriod): number {
  return Math.floor((epochMs + offsetMs) / DAY_MS);
}

function iso(millis: number): string {
  return new Date(millis).toISOString();
}
