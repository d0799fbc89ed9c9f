import { invalidCalendar } from '../errors/errors.js';
import type { Calendar } from './calendar.js';
import type { ClockChange } from './clock-change-preview.js';
import type { DayFields } from './cron-days.js';
import type { OffsetPeriod, TimeZone } from './time-zone.js';
import { fireTimesBetween, type Schedule } from './zoned-schedule.js';

const DAY_MS = 86_400_000;

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
