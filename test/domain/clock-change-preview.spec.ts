import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { compileSchedule } from '../../lib/cron/schedule.js';
import { anExpression, type WrittenExpression } from './cron-arbitrary.js';

const HOUR_MS = 3_600_000;
const YEAR_MS = 365 * 24 * HOUR_MS;

const changesIn = (expression: string, timeZone: string, from: string) =>
  compileSchedule(expression, timeZone).clockChanges(Date.parse(from), Date.parse(from) + YEAR_MS);

describe('the preview of clock changes', () => {
  it.each([
    [
      'a fixed time in a gap',
      '15 2 * * *',
      'Europe/Berlin',
      [['moved', '2026-03-29T01:00:00Z', 1, ['2026-03-29 02:15'], ['2026-03-29T01:00:00Z']]],
    ],
    [
      'a fixed time on the half hour that Lord Howe skips',
      '10 2 * * *',
      'Australia/Lord_Howe',
      [['moved', '2026-10-03T15:30:00Z', 1, ['2026-10-04 02:10'], ['2026-10-03T15:30:00Z']]],
    ],
    [
      'a fixed time in a gap of two hours, and in the two that come twice',
      '15 2 * * *',
      'Antarctica/Troll',
      [['moved', '2026-03-29T01:00:00Z', 1, ['2026-03-29 02:15'], ['2026-03-29T01:00:00Z']]],
    ],
    [
      'a wildcard in the gap and in the repeated hour',
      '*/30 2 * * *',
      'Europe/Berlin',
      [
        ['skipped', '2026-03-29T01:00:00Z', 2, ['2026-03-29 02:00', '2026-03-29 02:30'], []],
        [
          'doubled',
          '2026-10-25T01:00:00Z',
          2,
          ['2026-10-25 02:00', '2026-10-25 02:30'],
          ['2026-10-25T00:00:00Z', '2026-10-25T00:30:00Z', '2026-10-25T01:00:00Z', '2026-10-25T01:30:00Z'],
        ],
      ],
    ],
  ])('%s: %s in %s', (_, expression, timeZone, changes) => {
    const found = changesIn(expression, timeZone, '2026-01-01T00:00:00Z');
    const iso = (at: number) => new Date(at).toISOString().replace('.000', '');
    expect(
      found.map(({ at, kind, count, localTimes, fireTimes }) => [kind, iso(at), count, localTimes, fireTimes.map(iso)]),
    ).toEqual(changes);
  });

  it('a day that a zone left out is not made up: changes of three hours or more are corrections', () => {
    expect(changesIn('0 12 * * *', 'Pacific/Apia', '2011-06-01T00:00:00Z')).toMatchObject([
      {
        kind: 'skipped',
        localTimes: ['2011-12-30 12:00'],
        fireTimes: [],
        offsetBeforeMs: -10 * HOUR_MS,
        offsetAfterMs: 14 * HOUR_MS,
      },
    ]);
  });

  it('a change three hours back is followed: a fixed time comes twice', () => {
    const schedule = compileSchedule('30 2 * * *', 'Antarctica/Casey');
    const fireTimes = [Date.parse('2018-03-10T15:30:00Z'), Date.parse('2018-03-10T18:30:00Z')];
    expect(schedule.clockChanges(Date.parse('2018-01-01T00:00:00Z'), Date.parse('2018-06-01T00:00:00Z'))).toMatchObject(
      [{ kind: 'doubled', localTimes: ['2018-03-11 02:30'], fireTimes, surprising: true }],
    );
    expect(schedule.between(fireTimes[0]! - 1, fireTimes[1]!)).toEqual(fireTimes);
  });

  it('looks a year ahead at most, and lists few of many times', () => {
    const schedule = compileSchedule('* * * * * *', 'Europe/Berlin');
    const changes = schedule.clockChanges(Date.parse('2026-01-01T00:00:00Z'), Infinity);
    expect(
      changes.map(({ kind, count, localTimes, surprising }) => [kind, count, localTimes.length, surprising]),
    ).toEqual([
      ['skipped', 3600, 4, false],
      ['doubled', 3600, 4, false],
    ]);
  });

  it('tells of a change at the end of its span, not of one at the beginning', () => {
    const schedule = compileSchedule('15 2 * * *', 'Europe/Berlin');
    const change = Date.parse('2026-03-29T01:00:00Z');
    expect(schedule.clockChanges(change - 1, change)).toHaveLength(1);
    expect(schedule.clockChanges(change, change + 1)).toEqual([]);
    expect(schedule.clockChanges(change - 2, change - 1)).toEqual([]);
  });
});

/** Days with one change each, less than three hours. */
const CHANGES: ReadonlyArray<[timeZone: string, day: string]> = [
  ['Europe/Berlin', '2025-03-30'],
  ['Europe/Berlin', '2025-10-26'],
  ['America/New_York', '2024-03-10'],
  ['America/New_York', '2024-11-03'],
  ['Australia/Lord_Howe', '2025-10-04'],
  ['Australia/Lord_Howe', '2026-04-04'],
  ['Antarctica/Troll', '2026-03-29'],
  ['Antarctica/Troll', '2026-10-25'],
  ['Africa/Cairo', '2025-04-24'],
  ['Africa/Cairo', '2025-10-30'],
  ['America/Havana', '2025-03-09'],
  ['America/Havana', '2025-11-02'],
  ['Asia/Beirut', '2025-03-29'],
  ['Pacific/Chatham', '2026-09-26'],
  ['Pacific/Chatham', '2026-04-04'],
];

describe('compared with the clock on the wall', () => {
  it('tells of every time that is skipped or comes twice, and of nothing else', () => {
    const walls = new Map(
      CHANGES.map(([timeZone, day]) => [`${timeZone} ${day}`, wall(timeZone, Date.parse(day) - 12 * HOUR_MS)]),
    );
    fc.assert(
      fc.property(anExpression, fc.constantFrom(...CHANGES), (expression, [timeZone, day]) => {
        const { start, end, seen } = walls.get(`${timeZone} ${day}`)!;
        const schedule = compiled(expression, timeZone);
        if (!schedule) return;
        const locals = [...seen.keys()];
        const perMinute = expression.second.values.size;
        const fixed = !expression.minute.text.startsWith('*') && !expression.hour.text.startsWith('*');
        const skipped =
          range(Math.min(...locals), Math.max(...locals)).filter(
            (local) => !seen.has(local) && matches(expression, local),
          ).length * perMinute;
        const twice =
          locals.filter((local) => seen.get(local)!.length === 2 && matches(expression, local)).length * perMinute;
        const changes = schedule.clockChanges(start, end);
        const wanted = [
          ...(skipped > 0 ? [[fixed ? 'moved' : 'skipped', skipped]] : []),
          ...(twice > 0 && !fixed ? [['doubled', twice]] : []),
        ];
        expect(changes.map(({ kind, count }) => [kind, count])).toEqual(wanted);
        for (const { fireTimes } of changes)
          for (const fireTime of fireTimes) expect(schedule.between(fireTime - 1, fireTime)).toEqual([fireTime]);
      }),
      { numRuns: 500 },
    );
  });
});

/** The minutes of two days as `Intl` shows them, which the code under test does not use: local minute to instants. */
function wall(timeZone: string, start: number) {
  const clock = new Intl.DateTimeFormat('en-US', {
    timeZone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
  });
  const end = start + 48 * HOUR_MS;
  const seen = new Map<number, number[]>();
  for (let instant = start; instant < end; instant += 60_000) {
    const [month, day, year, hour, minute] = clock.format(instant).match(/\d+/g)!.map(Number) as [
      number,
      number,
      number,
      number,
      number,
    ];
    const local = Date.UTC(year, month - 1, day, hour, minute) / 60_000;
    seen.set(local, [...(seen.get(local) ?? []), instant]);
  }
  return { start, end, seen };
}

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, index) => from + index);
}

function matches({ minute, hour, dayOfMonth, month, dayOfWeek }: WrittenExpression, local: number): boolean {
  const minuteOfDay = local - Math.floor(local / 1440) * 1440;
  const date = new Date(local * 60_000);
  const [ofMonth, ofWeek] = [dayOfMonth.values.has(date.getUTCDate()), dayOfWeek.values.has(date.getUTCDay())];
  const both = [dayOfMonth, dayOfWeek].every(({ text }) => !/^[*?]/.test(text));
  return (
    minute.values.has(minuteOfDay % 60) &&
    hour.values.has(Math.floor(minuteOfDay / 60)) &&
    month.values.has(date.getUTCMonth() + 1) &&
    (both ? ofMonth || ofWeek : ofMonth && ofWeek)
  );
}

/** Null for an expression that never fires. */
function compiled({ text }: WrittenExpression, timeZone: string) {
  try {
    return compileSchedule(text, timeZone);
  } catch {
    return null;
  }
}
