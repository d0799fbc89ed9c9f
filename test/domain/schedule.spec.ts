import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { compileSchedule, fireTimesBetween, nextFireTimes, previousFireTime } from '../../lib/cron/schedule.js';
import { InvalidOptionsError } from '../../lib/errors/errors.js';
import { anExpression } from './cron-arbitrary.js';

const DAY_MS = 86_400_000;

/** Short for a table: seconds only where there are some. */
const short = (instant: Date | number | null) =>
  instant === null ? null : new Date(instant).toISOString().replace('.000Z', 'Z').replace(/:00Z$/, 'Z');

function thrownBy(call: () => unknown): unknown {
  try {
    return call();
  } catch (error) {
    return error;
  }
}

describe('at a clock change', () => {
  it.each<[what: string, expression: string, timeZone: string, from: string, to: string, fires: string[]]>([
    [
      'a fixed time in a gap fires once, at the jump',
      '30 2 * * *',
      'Europe/Berlin',
      '2025-03-29',
      '2025-03-31',
      ['2025-03-29T01:30Z', '2025-03-30T01:00Z', '2025-03-31T00:30Z'],
    ],
    [
      'several fixed times in one gap are one',
      '0,20,40 2 * * *',
      'Europe/Berlin',
      '2025-03-30',
      '2025-03-30',
      ['2025-03-30T01:00Z'],
    ],
    ['so are seconds in a gap', '*/10 30 2 * * *', 'Europe/Berlin', '2025-03-30', '2025-03-30', ['2025-03-30T01:00Z']],
    [
      'one made up and one regular at the jump are one',
      '0 2,3 * * *',
      'Europe/Berlin',
      '2025-03-30',
      '2025-03-30',
      ['2025-03-30T01:00Z'],
    ],
    [
      'the date of a made-up time is that of its nominal time',
      '30 2 30 3 0',
      'Europe/Berlin',
      '2025-03-30',
      '2025-03-30',
      ['2025-03-30T01:00Z'],
    ],
    [
      'a fixed time in a repeated hour fires on its first pass',
      '30 2 * * *',
      'Europe/Berlin',
      '2025-10-26',
      '2025-10-26',
      ['2025-10-26T00:30Z'],
    ],
    [
      'so does each of an hour range',
      '0 1-3 * * *',
      'Europe/Berlin',
      '2025-10-26',
      '2025-10-26',
      ['2025-10-26T00:00Z', '2025-10-26T02:00Z'],
    ],
    ['a wildcard minute has no run made up', '*/30 2 * * *', 'Europe/Berlin', '2025-03-30', '2025-03-30', []],
    [
      'a wildcard minute fires on both passes',
      '*/30 2 * * *',
      'Europe/Berlin',
      '2025-10-26',
      '2025-10-26',
      ['2025-10-26T00:00Z', '2025-10-26T00:30Z', '2025-10-26T01:00Z', '2025-10-26T01:30Z'],
    ],
    [
      'a wildcard hour follows the clock over a gap',
      '30 */2 * * *',
      'Europe/Berlin',
      '2025-03-30',
      '2025-03-30T03:00Z',
      ['2025-03-30T02:30Z'],
    ],
    [
      '30 minutes forward',
      '15 2 * * *',
      'Australia/Lord_Howe',
      '2025-10-04',
      '2025-10-05',
      ['2025-10-04T15:30Z', '2025-10-05T15:15Z'],
    ],
    [
      '30 minutes back',
      '45 1 * * *',
      'Australia/Lord_Howe',
      '2026-04-04',
      '2026-04-05',
      ['2026-04-04T14:45Z', '2026-04-05T15:15Z'],
    ],
    [
      '30 minutes back, before them',
      '15 1 * * *',
      'Australia/Lord_Howe',
      '2026-04-04',
      '2026-04-05',
      ['2026-04-04T14:15Z', '2026-04-05T14:45Z'],
    ],
    ['two hours forward', '30 1,2 * * *', 'Antarctica/Troll', '2026-03-29', '2026-03-29T12:00Z', ['2026-03-29T01:00Z']],
    ['two hours back', '30 1,2 * * *', 'Antarctica/Troll', '2026-10-25', '2026-10-25', ['2026-10-25T00:30Z']],
    [
      'two hours back, every hour',
      '30 * * * *',
      'Antarctica/Troll',
      '2026-10-25',
      '2026-10-25T03:00Z',
      ['2026-10-25T00:30Z', '2026-10-25T01:30Z', '2026-10-25T02:30Z'],
    ],
    [
      'three quarters past, at a quarter to',
      '*/15 * * * *',
      'Pacific/Chatham',
      '2026-04-04T14:00Z',
      '2026-04-04T15:00Z',
      ['2026-04-04T14:00Z', '2026-04-04T14:15Z', '2026-04-04T14:30Z', '2026-04-04T14:45Z', '2026-04-04T15:00Z'],
    ],
    ['no midnight', '0 0 * * *', 'Asia/Beirut', '2025-03-29', '2025-03-30', ['2025-03-29T22:00Z', '2025-03-30T21:00Z']],
    [
      'no midnight, on the day of the week that lacks it',
      '0 0 * * FRI',
      'Africa/Cairo',
      '2025-04-24',
      '2025-04-25',
      ['2025-04-24T22:00Z'],
    ],
    [
      'no midnight in Asunción',
      '10 0 * * *',
      'America/Asuncion',
      '2023-10-01',
      '2023-10-02',
      ['2023-10-01T04:00Z', '2023-10-02T03:10Z'],
    ],
    [
      'two midnights',
      '0 0 * * *',
      'America/Havana',
      '2025-11-01T12:00Z',
      '2025-11-03',
      ['2025-11-02T04:00Z', '2025-11-03T05:00Z'],
    ],
    [
      'the hour before midnight repeated, on the date before',
      '30 23 * * *',
      'Africa/Cairo',
      '2025-10-30',
      '2025-10-31',
      ['2025-10-30T20:30Z', '2025-10-31T21:30Z'],
    ],
    [
      'Ramadan: back',
      '30 2 * * *',
      'Africa/Casablanca',
      '2025-02-23',
      '2025-02-24',
      ['2025-02-23T01:30Z', '2025-02-24T02:30Z'],
    ],
    [
      'Ramadan: forward',
      '30 2 * * *',
      'Africa/Casablanca',
      '2025-04-06',
      '2025-04-07',
      ['2025-04-06T02:00Z', '2025-04-07T01:30Z'],
    ],
    [
      'a skipped day is not made up',
      '0 12 * * *',
      'Pacific/Apia',
      '2011-12-29',
      '2011-12-31',
      ['2011-12-29T22:00Z', '2011-12-30T22:00Z', '2011-12-31T22:00Z'],
    ],
    ['nor does its date come', '0 12 30 12 *', 'Pacific/Apia', '2011-01-01', '2012-12-31', ['2012-12-29T22:00Z']],
    [
      'three hours forward are a correction: nothing is made up',
      '30 5 * * *',
      'Antarctica/Casey',
      '2018-10-06',
      '2018-10-07',
      ['2018-10-07T18:30Z'],
    ],
    [
      'three hours back are a correction: the clock is followed',
      '30 2 * * *',
      'Antarctica/Casey',
      '2018-03-10',
      '2018-03-10',
      ['2018-03-10T15:30Z', '2018-03-10T18:30Z'],
    ],
    ['a quarter of an hour', '10 0 1 1 *', 'Asia/Kathmandu', '1985-12-01', '1986-12-01', ['1985-12-31T18:30Z']],
    ['before 1970', '30 2 * * *', 'America/New_York', '1967-04-30', '1967-04-30', ['1967-04-30T07:00Z']],
    ['by local mean time', '0 0 1 1 *', 'Europe/Berlin', '1850-12-31', '1851-12-30', ['1850-12-31T23:06:32Z']],
    ['far from now', '30 2 * * *', 'Europe/Berlin', '2150-03-29', '2150-03-29', ['2150-03-29T01:00Z']],
    [
      'a leap day, after a century without',
      '0 0 29 2 *',
      'Asia/Tokyo',
      '2096-03-01',
      '2108-12-31',
      ['2104-02-28T15:00Z', '2108-02-28T15:00Z'],
    ],
  ])('%s: %s in %s', (_, expression, timeZone, from, to, fires) => {
    const fromMs = Date.parse(from) - 1;
    const toMs = to.length === 10 ? Date.parse(to) + DAY_MS - 1 : Date.parse(to);
    const schedule = compileSchedule(expression, timeZone);
    expect(schedule.between(fromMs, toMs).map(short)).toEqual(fires);
    expect(schedule.countBetween(fromMs, toMs)).toBe(fires.length);
  });

  it.each(['2025-03-29T01:30:00.001Z', '2025-03-30T00:59:59.999Z', '2025-03-29T12:00:00Z'])(
    'asked from %s, a made-up time is the same',
    (from) => {
      const [next] = nextFireTimes('30 2 * * *', { timeZone: 'Europe/Berlin', from: new Date(from), count: 1 });
      expect(short(next)).toBe('2025-03-30T01:00Z');
    },
  );

  it('asked between the passes of a repeated hour, the next is on the next day', () => {
    const from = new Date('2025-10-26T00:45:00Z');
    expect(nextFireTimes('30 2 * * *', { timeZone: 'Europe/Berlin', from, count: 1 }).map(short)).toEqual([
      '2025-10-27T01:30Z',
    ]);
    expect(
      short(previousFireTime('30 2 * * *', { timeZone: 'Europe/Berlin', before: new Date('2025-10-26T02:00Z') })),
    ).toBe('2025-10-26T00:30Z');
  });
});

describe('the functions with dates', () => {
  const timeZone = 'Europe/Berlin';

  it('exclude from, include to, and have a limit', () => {
    const from = new Date('2025-06-01T07:00:00Z');
    const to = new Date('2025-06-04T07:00:00Z');
    expect(fireTimesBetween('0 9 * * *', { timeZone, from, to }).map(short)).toEqual([
      '2025-06-02T07:00Z',
      '2025-06-03T07:00Z',
      '2025-06-04T07:00Z',
    ]);
    expect(fireTimesBetween('0 9 * * *', { timeZone, from, to, limit: 2 })).toHaveLength(2);
    expect(fireTimesBetween('0 9 * * *', { timeZone, from, to, limit: 0 })).toEqual([]);
    expect(fireTimesBetween('0 9 * * *', { timeZone, from: to, to: from })).toEqual([]);
    expect(nextFireTimes('0 9 * * *', { timeZone, from, count: 2 }).map(short)).toEqual([
      '2025-06-02T07:00Z',
      '2025-06-03T07:00Z',
    ]);
    expect(short(previousFireTime('0 9 * * *', { timeZone, before: from }))).toBe('2025-05-31T07:00Z');
  });

  it('take milliseconds', () => {
    expect(nextFireTimes('* * * * * *', { timeZone, from: new Date('2025-06-01T07:00:00.999Z'), count: 1 })).toEqual([
      new Date('2025-06-01T07:00:01Z'),
    ]);
    expect(previousFireTime('* * * * * *', { timeZone, before: new Date('2025-06-01T07:00:00.001Z') })).toEqual(
      new Date('2025-06-01T07:00:00Z'),
    );
    expect(compileSchedule('* * * * * *', 'UTC').previousBefore(1000.5)).toBe(1000);
    expect(compileSchedule('* * * * * *', 'UTC').nextAfter(999.5)).toBe(1000);
  });

  it('spread H by the name of the job', () => {
    const of = (jobName: string) => nextFireTimes('H H * * *', { timeZone, from: new Date(0), count: 1, jobName })[0];
    expect(of('a')).toEqual(of('a'));
    expect(of('a')).not.toEqual(of('b'));
  });

  it('refuse what is wrong at once', () => {
    expect(() => compileSchedule('0 0 30 2 *', timeZone)).toThrow(expect.objectContaining({ code: 'invalid-cron' }));
    expect(() => compileSchedule('0 0 * * *', 'Mars/Phobos')).toThrow(
      expect.objectContaining({ code: 'invalid-time-zone' }),
    );
    expect(() => compileSchedule('0 0 * * *', timeZone).countBetween(0, Infinity)).toThrow(RangeError);
  });

  it('are those of UTC where no zone is given', () => {
    expect(nextFireTimes('15 2 * * *', { from: new Date(0), count: 1 }).map(short)).toEqual(['1970-01-01T02:15Z']);
    expect(short(previousFireTime('15 2 * * *', { before: new Date(0), timeZone: undefined }))).toBe(
      '1969-12-31T02:15Z',
    );
    expect(fireTimesBetween('15 2 * * *', { from: new Date(0), to: new Date(86_400_000) }).map(short)).toEqual([
      '1970-01-01T02:15Z',
    ]);
  });

  const from = new Date(0);
  it.each<[problems: string[], call: () => unknown]>([
    [
      ['nextFireTimes: options: expected an object with from, count, got undefined'],
      () => nextFireTimes('0 0 * * *', undefined as never),
    ],
    [
      ['nextFireTimes: count: expected a whole number, at least 0, got undefined'],
      () => nextFireTimes('0 0 * * *', { from } as never),
    ],
    [
      ['nextFireTimes: count: expected a whole number, at least 0, got 1.5'],
      () => nextFireTimes('0 0 * * *', { from, count: 1.5 }),
    ],
    [
      [
        'nextFireTimes: Unknown option "timezone"; did you mean "timeZone"?',
        'nextFireTimes: Unknown option "tz"; there are timeZone, jobName, from, count.',
      ],
      () => nextFireTimes('0 0 * * *', { from, count: 1, timezone: 'UTC', tz: 'UTC' } as never),
    ],
    [
      [
        'nextFireTimes: expected a cron expression such as "15 2 * * *", got 5',
        'nextFireTimes: timeZone: expected an IANA name such as "Europe/Berlin", got 1',
        'nextFireTimes: from: expected a valid Date, got "now"',
      ],
      () => nextFireTimes(5 as never, { from: 'now', count: 1, timeZone: 1 } as never),
    ],
    [
      ['previousFireTime: before: expected a valid Date, got Invalid Date'],
      () => previousFireTime('0 0 * * *', { before: new Date(NaN) }),
    ],
    [
      ['previousFireTime: before: expected a valid Date, got undefined'],
      () => previousFireTime('0 0 * * *', {} as never),
    ],
    [
      [
        'fireTimesBetween: from: expected a valid Date, got undefined',
        'fireTimesBetween: to: expected a valid Date, got 5',
        'fireTimesBetween: limit: expected a whole number, at least 0, got -1',
      ],
      () => fireTimesBetween('0 0 * * *', { to: 5, limit: -1 } as never),
    ],
  ])('refuse options that are missing, wrong or unknown: %j', (problems, call) => {
    const thrown = thrownBy(call);
    expect(thrown).toBeInstanceOf(InvalidOptionsError);
    expect((thrown as InvalidOptionsError).problems).toEqual(problems);
  });

  it('name the option that an H needs', () => {
    expect(() => nextFireTimes('H 2 * * *', { from, count: 1 })).toThrow(
      'minute "H" needs the name of a job to be spread by: give jobName.',
    );
  });

  it('come with a warning where the owner may mean something else', () => {
    expect(compileSchedule('0 0 13 * 5', 'CET').warnings).toEqual([
      'Cron "0 0 13 * 5" restricts both the day of month and the day of week; it fires when either of them matches.',
      expect.stringContaining('Time zone "CET"'),
    ]);
    expect(compileSchedule('0 0 */2 * SUN', timeZone).warnings).toEqual([
      'Cron "0 0 */2 * SUN" has a day field that begins with *; it fires when both the day of month and the day of week match.',
    ]);
    expect(compileSchedule('0 0 1-7 * */7', timeZone).warnings).toHaveLength(1);
    for (const plain of ['0 0 13 * *', '0 0 ? * MON#1', '0 0 L * */1', '0 0 */2 * *'])
      expect(compileSchedule(plain, timeZone).warnings).toEqual([]);
  });

  it('end with time itself', () => {
    const end = 8.64e15;
    expect(compileSchedule('0 0 * * *', 'Asia/Tokyo').nextAfter(end)).toBeNull();
    expect(compileSchedule('0 0 29 2 *', 'Europe/Berlin').nextAfter(end - DAY_MS)).toBeNull();
    expect(compileSchedule('0 0 29 2 *', 'Europe/Berlin').previousBefore(-end + DAY_MS)).toBeNull();
  });
});

describe('one set of fire times', () => {
  const ZONES = [
    'UTC',
    'Europe/Berlin',
    'Australia/Lord_Howe',
    'Pacific/Chatham',
    'Antarctica/Troll',
    'Africa/Casablanca',
    'America/St_Johns',
    'Pacific/Apia',
    'America/Havana',
    'Africa/Cairo',
    'Antarctica/Casey',
    'Asia/Kathmandu',
  ];
  const aSchedule = fc.tuple(anExpression, fc.constantFrom(...ZONES)).chain(([{ text }, zone]) => {
    try {
      return fc.constant(compileSchedule(text, zone, 'a-job'));
    } catch {
      return fc.constant(compileSchedule('30 2 * * *', zone));
    }
  });
  const anInstant = fc.integer({ min: Date.UTC(1950, 0), max: Date.UTC(2110, 0) });

  it('next is later, and previous of next is where one was', () => {
    fc.assert(
      fc.property(aSchedule, anInstant, (schedule, instant) => {
        const first = schedule.nextAfter(instant)!;
        const second = schedule.nextAfter(first)!;
        expect(first).toBeGreaterThan(instant);
        expect(second).toBeGreaterThan(first);
        expect(Number.isInteger(first / 1000)).toBe(true);
        expect(schedule.previousBefore(second)).toBe(first);
        expect(schedule.previousBefore(first + 1)).toBe(first);
        expect(schedule.nextAfter(first - 1)).toBe(first);
        expect(schedule.previousBefore(first) ?? -Infinity).toBeLessThanOrEqual(instant);
      }),
      { numRuns: 500 },
    );
  });

  it('a window cut in two has the same instants, and as many as are counted', () => {
    fc.assert(
      fc.property(aSchedule, anInstant, fc.nat(20 * DAY_MS), fc.nat(20 * DAY_MS), (schedule, from, first, second) => {
        const cut = from + first;
        const to = cut + second;
        const limit = 500;
        const whole = schedule.between(from, to, limit);
        const parts = [...schedule.between(from, cut, limit), ...schedule.between(cut, to, limit)];
        expect(parts.slice(0, limit)).toEqual(whole);
        if (whole.length < limit) {
          expect(schedule.countBetween(from, to)).toBe(whole.length);
        }
        expect(schedule.countBetween(from, cut) + schedule.countBetween(cut, to)).toBe(schedule.countBetween(from, to));
      }),
      { numRuns: 300 },
    );
  });
});
