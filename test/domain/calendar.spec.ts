import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { calendarText, type CalendarRules } from '../../lib/cron/calendar.js';
import { compileSchedule, type Schedule } from '../../lib/cron/schedule.js';

const DAY_MS = 86_400_000;
const at = (text: string) => Date.parse(text);
const limited = (expression: string, rules: CalendarRules, timeZone = 'UTC'): Schedule =>
  compileSchedule(expression, timeZone, 'job', calendarText(rules));
const fires = (schedule: Schedule, from: string, to: string) =>
  schedule.between(at(from), at(to)).map((instant) => new Date(instant).toISOString().replace(/(:00)?\.000Z$/, 'Z'));

describe('what a schedule leaves out', () => {
  it('days by their date, in the zone of the job', () => {
    const schedule = limited('0 */6 * * *', { exclude: ['2026-12-25'] }, 'America/New_York');
    expect(fires(schedule, '2026-12-25T00:00Z', '2026-12-26T12:00Z')).toEqual([
      '2026-12-26T05:00Z',
      '2026-12-26T11:00Z',
    ]);
    expect(schedule.previousBefore(at('2026-12-26T05:00Z'))).toBe(at('2026-12-24T23:00Z'));
  });

  it('days by an expression, on top of each other', () => {
    const schedule = limited('0 9 * * *', { exclude: ['* * * * 0,6', '* * 1 1 *', '2026-12-31'] });
    expect(fires(schedule, '2026-12-30T00:00Z', '2027-01-06T00:00Z')).toEqual([
      '2026-12-30T09:00Z',
      '2027-01-04T09:00Z',
      '2027-01-05T09:00Z',
    ]);
  });

  it('what is before the start and from the end on', () => {
    const rules = { startAt: new Date('2026-06-01T12:00Z'), endAt: new Date('2026-06-01T15:00Z') };
    const schedule = limited('0 * * * *', rules);
    expect(fires(schedule, '2020-01-01T00:00Z', '2030-01-01T00:00Z')).toEqual([
      '2026-06-01T12:00Z',
      '2026-06-01T13:00Z',
      '2026-06-01T14:00Z',
    ]);
    expect(schedule.countBetween(at('2020-01-01'), at('2030-01-01'))).toBe(3);
    expect([schedule.nextAfter(at('2026-06-01T14:00Z')), schedule.previousBefore(at('2026-06-01T12:00Z'))]).toEqual([
      null,
      null,
    ]);
    expect(schedule.previousBefore(at('2030-01-01'))).toBe(at('2026-06-01T14:00Z'));
  });

  // Eleven months have 28 million seconds: looked at one by one, the test's time is over before.
  it('is done in proportion to the days, not to the fire times on them', () => {
    const schedule = limited('* * * * * *', { exclude: ['* * * 1-11 *'] });
    expect(schedule.nextAfter(at('2026-01-01'))).toBe(at('2026-12-01'));
    expect(schedule.previousBefore(at('2026-11-30'))).toBe(at('2026-01-01') - 1_000);
    expect(schedule.countBetween(at('2026-01-01') - 1, at('2027-01-01') - 1)).toBe(31 * 86_400);
  });

  it('nothing of the clock changes on a day that is left out', () => {
    const year = [at('2025-01-01'), at('2025-12-31')] as const;
    expect(limited('30 2 * * *', {}, 'Europe/Berlin').clockChanges(...year)).toHaveLength(1);
    expect(limited('30 2 * * *', { exclude: ['2025-03-30'] }, 'Europe/Berlin').clockChanges(...year)).toEqual([]);
  });

  it.each(['Europe/Berlin', 'America/St_Johns', 'Pacific/Apia', 'Australia/Lord_Howe'])(
    'agrees with asking for each fire time by itself: %s',
    (timeZone) => {
      const pieces = fc.constantFrom(
        '* * * * 0,6',
        '* * 1-10 * *',
        '* * L * *',
        '* * * 3 *',
        '2011-12-29',
        '2011-12-31',
        '1995-10-29',
        '1995-10-28',
        '* * * * 1#1',
      );
      const around = fc.constantFrom(at('2011-12-30'), at('1995-10-29T03:00Z'), at('1995-04-02'));
      fc.assert(
        fc.property(
          fc.constantFrom('*/30 * * * *', '15 2 * * *', '0 0 * * *'),
          fc.array(pieces, { maxLength: 4 }),
          around,
          fc.integer({ min: -40, max: 40 }),
          (cron, exclude, middle, days) => {
            const [base, schedule] = [limited(cron, {}, timeZone), limited(cron, { exclude }, timeZone)];
            const [from, to] = [middle - 20 * DAY_MS + days * 3_600_000, middle + 20 * DAY_MS];
            const excluding = exclude.map((item) => limited('* * * * *', { exclude: [item] }, timeZone));
            const expected = base
              .between(from, to)
              .filter((instant) => excluding.every((one) => one.between(instant - 1, instant).length === 1));
            expect(schedule.between(from, to)).toEqual(expected);
            expect(schedule.countBetween(from, to)).toBe(expected.length);
            const back: number[] = [];
            for (
              let before = schedule.previousBefore(to + 1);
              before !== null && before > from;
              before = schedule.previousBefore(before)
            )
              back.unshift(before);
            expect(back).toEqual(expected);
          },
        ),
        { numRuns: 60 },
      );
    },
  );
});

describe('its text', () => {
  it('is the same for the same rules, however they are written', () => {
    const startAt = new Date('2026-06-01T12:00:00+02:00');
    expect(calendarText({ exclude: ['* *  1 1 *', '2026-12-25', '* * 1 1 *'], startAt })).toBe(
      calendarText({ startAt, exclude: ['2026-12-25', '* * 1 1 *'] }),
    );
    expect([calendarText({}), calendarText({ exclude: [] })]).toEqual([null, null]);
  });

  it.each<[string, CalendarRules, string?]>([
    ['exclude leaves no day on which "0 9 * * *" fires', { exclude: ['* * * * *'] }],
    ['exclude leaves no day on which "0 9 * * 1" fires', { exclude: ['* * * * 1-5'] }, '0 9 * * 1'],
    ['exclude leaves no day on which "0 9 29 2 *" fires', { exclude: ['* * L * *'] }, '0 9 29 2 *'],
    ['names times of day', { exclude: ['* 9 * * *'] }],
    ['there is no day 2026-02-30', { exclude: ['2026-02-30'] }],
    ['outside 1-31', { exclude: ['* * 42 * *'] }],
    ['must be before endAt', { startAt: new Date('2026-01-02'), endAt: new Date('2026-01-01') }],
    ['never fires between startAt', { startAt: new Date('2026-01-01T10:00Z'), endAt: new Date('2026-01-01T20:00Z') }],
    [
      'never fires between startAt',
      { startAt: new Date('2026-01-01'), endAt: new Date('2026-01-03'), exclude: ['2026-01-01', '2026-01-02'] },
    ],
    [
      'at most 1000',
      { exclude: Array.from({ length: 1_001 }, (_, day) => new Date(day * DAY_MS).toISOString().slice(0, 10)) },
    ],
  ])('is refused, at once: %s', (problem, rules, expression = '0 9 * * *') => {
    expect(() => limited(expression, rules)).toThrow(problem);
  });

  it('that somebody spoiled is refused', () => {
    expect(() => compileSchedule('0 9 * * *', 'UTC', 'job', '{')).toThrow(
      expect.objectContaining({ code: 'invalid-calendar' }),
    );
  });
});
