import { invalidCron } from '../errors/errors.js';
import type { Schedule } from './zoned-schedule.js';

const UNITS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Longer ones have their own words in cron. */
const LONGEST_MS = 366 * 86_400_000;

/** Whether an expression is an interval, `every 90s`, and not five or six fields. */
export function isInterval(expression: unknown): expression is string {
  return typeof expression === 'string' && /^\s*every\b/i.test(expression);
}

/** @throws InvalidScheduleError */
export function intervalMs(expression: string): number {
  const [, count, unit] = /^\s*every\s+(\d{1,9})\s*([smhd])\s*$/i.exec(expression) ?? [];
  if (count === undefined)
    throw invalidCron(
      expression,
      'an interval is a whole number of seconds, minutes, hours or days, such as "every 90s" or "every 12h"',
    );
  const millis = Number(count) * UNITS[unit!.toLowerCase()]!;
  if (millis < 1_000 || millis > LONGEST_MS)
    throw invalidCron(expression, 'an interval is from one second to 366 days');
  return millis;
}

/**
 * Fires each time so many milliseconds have passed since 1970-01-01T00:00:00Z: all replicas agree on the instants, and
 * no start of a process moves them. The zone is kept for what is shown; its clock changes move nothing.
 */
export class IntervalSchedule implements Schedule {
  readonly calendar = null;
  readonly isExternal = false;
  readonly warnings: readonly string[] = [];
  private readonly everyMs: number;

  constructor(
    readonly expression: string,
    readonly timeZone: string,
  ) {
    this.everyMs = intervalMs(expression);
  }

  nextAfter(epochMs: number): number | null {
    return within((Math.floor(requireInstant(epochMs) / this.everyMs) + 1) * this.everyMs);
  }

  previousBefore(epochMs: number): number | null {
    return within((Math.ceil(requireInstant(epochMs) / this.everyMs) - 1) * this.everyMs);
  }

  between(fromMs: number, toMs: number, limit = Infinity): number[] {
    const count = Math.min(this.countBetween(fromMs, toMs), limit);
    const first = this.nextAfter(fromMs);
    return first === null ? [] : Array.from({ length: count }, (_, index) => first + index * this.everyMs);
  }

  countBetween(fromMs: number, toMs: number): number {
    const last = Math.min(toMs, END_OF_TIME_MS);
    return Math.max(0, Math.floor(last / this.everyMs) - Math.floor(requireInstant(fromMs) / this.everyMs));
  }

  clockChanges(): [] {
    return [];
  }
}

const END_OF_TIME_MS = 8.64e15;

function within(instant: number): number | null {
  // A zero below it is none.
  return Math.abs(instant) <= END_OF_TIME_MS ? instant + 0 : null;
}

function requireInstant(epochMs: number): number {
  if (!Number.isFinite(epochMs)) throw new RangeError(`An instant in epoch milliseconds is expected, not ${epochMs}.`);
  return epochMs;
}
