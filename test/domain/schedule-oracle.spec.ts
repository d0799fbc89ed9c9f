import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { compileSchedule } from '../../lib/cron/schedule.js';
import { anExpression, type WrittenExpression } from './cron-arbitrary.js';

const MINUTE_MS = 60_000;
const DAY_MS = 1440 * MINUTE_MS;

/** Days on which clocks did something, and some on which they did not. */
const DAYS: ReadonlyArray<[timeZone: string, day: string]> = [
  ['Europe/Berlin', '2025-03-30'],
  ['Europe/Berlin', '2025-10-26'],
  ['America/New_York', '2024-03-10'],
  ['America/New_York', '2024-11-03'],
  ['Australia/Lord_Howe', '2025-10-04'],
  ['Australia/Lord_Howe', '2026-04-04'],
  ['Pacific/Chatham', '2026-09-26'],
  ['Pacific/Chatham', '2026-04-04'],
  ['Antarctica/Troll', '2026-03-29'],
  ['Antarctica/Troll', '2026-10-25'],
  ['Pacific/Apia', '2011-12-30'],
  ['Africa/Cairo', '2025-04-24'],
  ['Africa/Cairo', '2025-10-30'],
  ['Asia/Beirut', '2025-03-29'],
  ['America/Asuncion', '2023-10-01'],
  ['America/Asuncion', '2024-03-24'],
  ['America/Havana', '2025-03-09'],
  ['America/Havana', '2025-11-02'],
  ['Africa/Casablanca', '2025-02-23'],
  ['Africa/Casablanca', '2025-04-06'],
  ['Atlantic/Azores', '2026-10-25'],
  ['America/Santiago', '2025-04-06'],
  ['America/Santiago', '2025-09-07'],
  ['America/St_Johns', '2006-04-02'],
  ['America/St_Johns', '2006-10-29'],
  ['Antarctica/Casey', '2018-03-10'],
  ['Antarctica/Casey', '2016-10-21'],
  ['Asia/Pyongyang', '2018-05-04'],
  ['Asia/Kathmandu', '1985-12-31'],
  ['America/Caracas', '2016-05-01'],
  ['Europe/London', '1971-10-31'],
  ['Europe/Dublin', '2025-10-26'],
  ['Asia/Kolkata', '2024-02-29'],
  ['UTC', '2024-12-31'],
];

describe('a walk through every minute, by the clock on the wall', () => {
  it('finds the fire times that are computed', () => {
    const walks = new Map(
      DAYS.map(([timeZone, day]) => [`${timeZone} ${day}`, walk(timeZone, Date.parse(day) - 2 * DAY_MS, 4)]),
    );
    fc.assert(
      fc.property(anExpression, fc.constantFrom(...DAYS), (expression, [timeZone, day]) => {
        const minutes = walks.get(`${timeZone} ${day}`)!;
        const expected = fireTimes(expression, minutes);
        const schedule = compiled(expression, timeZone);
        if (schedule === null) {
          expect(expected).toEqual([]);
          return;
        }
        const from = minutes[FIRST].instant;
        const to = minutes[minutes.length - 1].instant + MINUTE_MS;
        expect(schedule.between(from - 1, to - 1)).toEqual(expected);
        expect(schedule.countBetween(from - 1, to - 1)).toBe(expected.length);
      }),
      { numRuns: 600 },
    );
  });
});

interface WallMinute {
  readonly instant: number;
  /** What the clock shows, in minutes from 1970-01-01T00:00. */
  readonly local: number;
}

/** The minutes before the first one that is judged: a day, for what was seen or skipped before. */
const FIRST = 1440;

/** Reads the clock by `Intl`, which the code under test does not use. */
function walk(timeZone: string, fromMs: number, days: number): WallMinute[] {
  const clock = new Intl.DateTimeFormat('en-US', {
    timeZone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
  });
  return Array.from({ length: days * 1440 }, (_, i) => {
    const instant = fromMs + i * MINUTE_MS;
    const [month, day, year, hour, minute] = clock.format(instant).match(/\d+/g)!.map(Number);
    return { instant, local: Date.UTC(year, month - 1, day, hour, minute) / MINUTE_MS };
  });
}

/** Vixie cron's rule as its manual page says it, minute by minute. */
function fireTimes(expression: WrittenExpression, minutes: WallMinute[]): number[] {
  const fixed = !expression.minute.text.startsWith('*') && !expression.hour.text.startsWith('*');
  const fires = new Set<number>();
  let newest = minutes[0].local;
  for (let i = 1; i < minutes.length; i++) {
    const { instant, local } = minutes[i];
    const jump = local - minutes[i - 1].local - 1;
    if (Math.abs(jump) >= 180) {
      newest = local - 1;
    }
    if (fixed && jump > 0 && jump < 180) {
      for (let skipped = local - jump; skipped < local; skipped++) {
        if (matches(expression, skipped)) {
          fires.add(instant);
        }
      }
    }
    if (matches(expression, local) && !(fixed && local <= newest)) {
      for (const second of expression.second.values) {
        fires.add(instant + second * 1000);
      }
    }
    newest = Math.max(newest, local);
  }
  return [...fires].filter((fire) => fire >= minutes[FIRST].instant).sort((a, b) => a - b);
}

function matches({ minute, hour, dayOfMonth, month, dayOfWeek }: WrittenExpression, local: number): boolean {
  const minuteOfDay = local - Math.floor(local / 1440) * 1440;
  if (!minute.values.has(minuteOfDay % 60) || !hour.values.has(Math.floor(minuteOfDay / 60))) {
    return false;
  }
  const date = new Date(local * MINUTE_MS);
  const ofMonth = dayOfMonth.values.has(date.getUTCDate());
  const ofWeek = dayOfWeek.values.has(date.getUTCDay());
  const restricted = ({ text }: { text: string }) => !/^[*?]/.test(text);
  return (
    month.values.has(date.getUTCMonth() + 1) &&
    (restricted(dayOfMonth) && restricted(dayOfWeek) ? ofMonth || ofWeek : ofMonth && ofWeek)
  );
}

/** Null for an expression that never fires. */
function compiled({ text }: WrittenExpression, timeZone: string) {
  try {
    return compileSchedule(text, timeZone);
  } catch (error) {
    expect(String(error)).toContain('never fires');
    return null;
  }
}
