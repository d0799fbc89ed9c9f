import { MONTHS_OF_A_CYCLE, matchingDays, monthOf, nextMonth, previousMonth } from './cron-days.js';
import type { CronExpression } from './cron-expression.js';

// A local time is written here as the milliseconds from 1970-01-01T00:00 on the local clock, as if that were UTC.

const DAY_MS = 86_400_000;

/** The first local time that matches, at or after `localMs`; null when there is none for 400 years. */
export function firstMatch(cron: CronExpression, localMs: number): number | null {
  const day = Math.floor(localMs / DAY_MS);
  const time = timeFrom(cron, Math.ceil((localMs - day * DAY_MS) / 1000));
  const found = dayFrom(cron, time === null ? day + 1 : day);
  if (found === null) {
    return null;
  }
  return found * DAY_MS + 1000 * (found === day && time !== null ? time : firstTime(cron));
}

/** The last local time that matches, at or before `localMs`; null when there is none for 400 years. */
export function lastMatch(cron: CronExpression, localMs: number): number | null {
  const day = Math.floor(localMs / DAY_MS);
  const time = timeUpTo(cron, Math.floor((localMs - day * DAY_MS) / 1000));
  const found = dayUpTo(cron, time === null ? day - 1 : day);
  if (found === null) {
    return null;
  }
  return found * DAY_MS + 1000 * (found === day && time !== null ? time : lastTime(cron));
}

/** How many local times match from `fromMs` to `toMs`, both included: by whole days, not one by one. */
export function countMatches(cron: CronExpression, fromMs: number, toMs: number): number {
  return fromMs > toMs ? 0 : countBefore(cron, fromMs, toMs + 1) - countBefore(cron, fromMs, fromMs);
}

/** The matches from the start of the day of `originMs` to `endMs`, which is not included. */
function countBefore(cron: CronExpression, originMs: number, endMs: number): number {
  const firstDay = Math.floor(originMs / DAY_MS);
  const lastDay = Math.floor(endMs / DAY_MS);
  let days = 0;
  let month = monthOf(firstDay);
  while (month.firstDay + month.length <= lastDay) {
    days += countBits(matchingDays(cron.days, month) & (-1 << Math.max(0, firstDay - month.firstDay)));
    month = nextMonth(month);
  }
  const daysOfLastMonth = matchingDays(cron.days, month);
  const from = Math.max(0, firstDay - month.firstDay);
  const last = lastDay - month.firstDay;
  days += countBits(daysOfLastMonth & (-1 << from) & ~(-1 << last));
  const perDay = cron.hours.length * cron.minutes.length * cron.seconds.length;
  const lastDayMatches = (daysOfLastMonth & (1 << last)) !== 0;
  return days * perDay + (lastDayMatches ? timesBefore(cron, Math.ceil((endMs - lastDay * DAY_MS) / 1000)) : 0);
}

function dayFrom(cron: CronExpression, day: number): number | null {
  let month = monthOf(day);
  for (let i = 0; i <= MONTHS_OF_A_CYCLE; i++) {
    const skipped = Math.max(0, day - month.firstDay);
    const days = matchingDays(cron.days, month) & (-1 << skipped);
    if (days !== 0) {
      return month.firstDay + 31 - Math.clz32(days & -days);
    }
    month = nextMonth(month);
  }
  return null;
}

function dayUpTo(cron: CronExpression, day: number): number | null {
  let month = monthOf(day);
  for (let i = 0; i <= MONTHS_OF_A_CYCLE; i++) {
    const kept = Math.min(31, day - month.firstDay + 1);
    const days = matchingDays(cron.days, month) & (0x7fff_ffff >>> (31 - kept));
    if (days !== 0) {
      return month.firstDay + 31 - Math.clz32(days);
    }
    month = previousMonth(month);
  }
  return null;
}

/** Times of day are seconds from midnight. */
function firstTime({ hours, minutes, seconds }: CronExpression): number {
  return hours[0] * 3600 + minutes[0] * 60 + seconds[0];
}

function lastTime({ hours, minutes, seconds }: CronExpression): number {
  return hours[hours.length - 1] * 3600 + minutes[minutes.length - 1] * 60 + seconds[seconds.length - 1];
}

function timeFrom({ hours, minutes, seconds }: CronExpression, time: number): number | null {
  const [hour, minute, second] = split(time);
  const sameMinute = hours.includes(hour) && minutes.includes(minute) && seconds.find((value) => value >= second);
  if (typeof sameMinute === 'number') {
    return hour * 3600 + minute * 60 + sameMinute;
  }
  const laterMinute = hours.includes(hour) ? minutes.find((value) => value > minute) : undefined;
  if (laterMinute !== undefined) {
    return hour * 3600 + laterMinute * 60 + seconds[0];
  }
  const laterHour = hours.find((value) => value > hour);
  return laterHour === undefined ? null : laterHour * 3600 + minutes[0] * 60 + seconds[0];
}

function timeUpTo({ hours, minutes, seconds }: CronExpression, time: number): number | null {
  const [hour, minute, second] = split(time);
  const sameMinute = hours.includes(hour) && minutes.includes(minute) && seconds.findLast((value) => value <= second);
  if (typeof sameMinute === 'number') {
    return hour * 3600 + minute * 60 + sameMinute;
  }
  const earlierMinute = hours.includes(hour) ? minutes.findLast((value) => value < minute) : undefined;
  if (earlierMinute !== undefined) {
    return hour * 3600 + earlierMinute * 60 + seconds[seconds.length - 1];
  }
  const earlierHour = hours.findLast((value) => value < hour);
  return earlierHour === undefined
    ? null
    : earlierHour * 3600 + minutes[minutes.length - 1] * 60 + seconds[seconds.length - 1];
}

function timesBefore({ hours, minutes, seconds }: CronExpression, time: number): number {
  const [hour, minute, second] = split(time);
  const below = (values: readonly number[], limit: number) => values.filter((value) => value < limit).length;
  const inMinute = minutes.includes(minute) ? below(seconds, second) : 0;
  const inHour = hours.includes(hour) ? below(minutes, minute) * seconds.length + inMinute : 0;
  return below(hours, hour) * minutes.length * seconds.length + inHour;
}

function split(time: number): [hour: number, minute: number, second: number] {
  return [Math.floor(time / 3600), Math.floor(time / 60) % 60, time % 60];
}

function countBits(bits: number): number {
  let count = 0;
  for (let left = bits; left !== 0; left &= left - 1) {
    count++;
  }
  return count;
}
