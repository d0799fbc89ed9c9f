import { DAY_OF_MONTH, DAY_OF_WEEK, readNumber, refused, type CronField, type CronSource } from './cron-fields.js';

/** A day that has to be looked up in each month. */
export type DayRule =
  /** `15W`: the weekday (Monday to Friday) nearest to a day, never in another month. */
  | { readonly kind: 'nearestWeekday'; readonly day: number }
  /** `L`, `L-3`, `LW`, `L-3W`: so many days before the last, or the weekday nearest to it. */
  | { readonly kind: 'beforeLast'; readonly days: number; readonly weekday: boolean }
  /** `5#2`: the second Friday. */
  | { readonly kind: 'nth'; readonly dayOfWeek: number; readonly nth: number }
  /** `5L`, `5#L`: the last Friday. */
  | { readonly kind: 'lastOfWeekday'; readonly dayOfWeek: number };

/** The fields that choose dates. */
export interface DayFields {
  readonly months: readonly number[];
  readonly daysOfMonth: readonly number[];
  readonly daysOfWeek: readonly number[];
  readonly rulesOfMonth: readonly DayRule[];
  readonly rulesOfWeek: readonly DayRule[];
  /** Both day fields are restricted, so either of them is enough (Vixie cron); otherwise both must agree. */
  readonly either: boolean;
}

/** A month of the proleptic Gregorian calendar. */
export interface Month {
  readonly year: number;
  /** 1 to 12. */
  readonly month: number;
  /** Its first day, counted from 1970-01-01. */
  readonly firstDay: number;
  readonly length: number;
}

/** After 400 years the calendar repeats, weekdays included. */
export const MONTHS_OF_A_CYCLE = 400 * 12;

/** Reads `L`, `W` and `#`. Null when the item has none of them. */
export function readDayRule(field: CronField, item: string, source: CronSource): DayRule | null {
  if (field === DAY_OF_MONTH) {
    return readRuleOfMonth(item, source);
  }
  return field === DAY_OF_WEEK ? readRuleOfWeek(item, source) : null;
}

/** The days of a month that match, as bits: bit 0 is the 1st. */
export function matchingDays(days: DayFields, month: Month): number {
  if (!days.months.includes(month.month)) {
    return 0;
  }
  let ofMonth = 0;
  for (const day of days.daysOfMonth) {
    ofMonth |= 1 << (day - 1);
  }
  for (const rule of days.rulesOfMonth) {
    ofMonth |= ruledDay(rule, month);
  }
  let ofWeek = 0;
  for (const dayOfWeek of days.daysOfWeek) {
    ofWeek |= EVERY_SEVENTH_DAY << (firstOfWeekday(dayOfWeek, month) - 1);
  }
  for (const rule of days.rulesOfWeek) {
    ofWeek |= ruledDay(rule, month);
  }
  return (days.either ? ofMonth | ofWeek : ofMonth & ofWeek) & (ALL_DAYS >>> (31 - month.length));
}

/** Whether any date matches, ever. */
export function everFires(days: DayFields): boolean {
  let month = monthOf(0);
  for (let i = 0; i < MONTHS_OF_A_CYCLE; i++) {
    if (matchingDays(days, month) !== 0) {
      return true;
    }
    month = nextMonth(month);
  }
  return false;
}

/** The month of a day counted from 1970-01-01. */
export function monthOf(day: number): Month {
  const date = new Date(day * 86_400_000);
  return monthAt(date.getUTCFullYear(), date.getUTCMonth() + 1, day - date.getUTCDate() + 1);
}

export function nextMonth({ year, month, firstDay, length }: Month): Month {
  return month === 12 ? monthAt(year + 1, 1, firstDay + length) : monthAt(year, month + 1, firstDay + length);
}

export function previousMonth({ year, month, firstDay }: Month): Month {
  const before = month === 1 ? monthAt(year - 1, 12, 0) : monthAt(year, month - 1, 0);
  return { ...before, firstDay: firstDay - before.length };
}

const ALL_DAYS = 0x7fff_ffff;
const EVERY_SEVENTH_DAY = 0b1_0000001_0000001_0000001_0000001;

function readRuleOfMonth(item: string, source: CronSource): DayRule | null {
  const nearest = /^(\d+)w$/i.exec(item);
  if (nearest) {
    return { kind: 'nearestWeekday', day: readNumber(DAY_OF_MONTH, nearest[1], source) };
  }
  const last = /^l(?:-(\d+))?(w)?$/i.exec(item);
  if (!last) {
    return null;
  }
  const days = Number(last[1] ?? 0);
  if (days > 30) {
    throw refused(source, `day of month "${item}" counts back ${days} days, but at most 30 are possible`);
  }
  return { kind: 'beforeLast', days, weekday: last[2] !== undefined };
}

function readRuleOfWeek(item: string, source: CronSource): DayRule | null {
  const numbered = /^([a-z]+|\d+)#(\d+)$/i.exec(item);
  if (numbered) {
    const nth = Number(numbered[2]);
    if (nth < 1 || nth > 5) {
      throw refused(source, `day of week "${item}" has ${nth} after the #, outside 1-5`);
    }
    return { kind: 'nth', dayOfWeek: readNumber(DAY_OF_WEEK, numbered[1], source) % 7, nth };
  }
  if (/^l$/i.test(item)) {
    throw refused(source, `day of week "${item}" does not say which day; write 5L for the last Friday`);
  }
  const last = /^(\d+|[a-z]{3,})#?l$/i.exec(item);
  return last ? { kind: 'lastOfWeekday', dayOfWeek: readNumber(DAY_OF_WEEK, last[1], source) % 7 } : null;
}

/** The day a rule means in a month, as a bit; 0 when the month has no such day. */
function ruledDay(rule: DayRule, month: Month): number {
  switch (rule.kind) {
    case 'nearestWeekday':
      return nearestWeekday(rule.day, month);
    case 'beforeLast': {
      const day = month.length - rule.days;
      return rule.weekday ? nearestWeekday(day, month) : bit(day, month);
    }
    case 'nth':
      return bit(firstOfWeekday(rule.dayOfWeek, month) + 7 * (rule.nth - 1), month);
    case 'lastOfWeekday': {
      const fifth = firstOfWeekday(rule.dayOfWeek, month) + 28;
      return bit(fifth > month.length ? fifth - 7 : fifth, month);
    }
  }
}

function nearestWeekday(day: number, month: Month): number {
  if (day < 1 || day > month.length) {
    return 0;
  }
  const dayOfWeek = weekdayOf(month.firstDay + day - 1);
  if (dayOfWeek === 6) {
    return bit(day === 1 ? 3 : day - 1, month);
  }
  if (dayOfWeek === 0) {
    return bit(day === month.length ? day - 2 : day + 1, month);
  }
  return bit(day, month);
}

function firstOfWeekday(dayOfWeek: number, month: Month): number {
  return 1 + ((dayOfWeek - weekdayOf(month.firstDay) + 7) % 7);
}

/** 1970-01-01 was a Thursday. */
function weekdayOf(day: number): number {
  return (((day + 4) % 7) + 7) % 7;
}

function bit(day: number, month: Month): number {
  return day >= 1 && day <= month.length ? 1 << (day - 1) : 0;
}

function monthAt(year: number, month: number, firstDay: number): Month {
  const leap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  const length = month === 2 ? (leap ? 29 : 28) : month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31;
  return { year, month, firstDay, length };
}
