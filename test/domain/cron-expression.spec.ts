import { describe, expect, it } from '@jest/globals';
import { matchingDays, monthOf } from '../../lib/cron/cron-days.js';
import { parseCronExpression } from '../../lib/cron/cron-expression.js';

describe('reading a field', () => {
  const to = (from: number, last: number, step = 1) =>
    Array.from({ length: Math.floor((last - from) / step) + 1 }, (_, i) => from + i * step);

  it.each<[expression: string, field: 'seconds' | 'minutes' | 'hours', values: number[]]>([
    ['5 4 * * *', 'seconds', [0]],
    ['15 5 4 * * *', 'seconds', [15]],
    ['*/20 * * * * *', 'seconds', [0, 20, 40]],
    ['* * * * *', 'minutes', to(0, 59)],
    ['05,5,1-3,2-4 * * * *', 'minutes', [1, 2, 3, 4, 5]],
    ['10-20/15 * * * *', 'minutes', [10]],
    ['7/20 * * * *', 'minutes', [7, 27, 47]],
    ['*/35 * * * *', 'minutes', [0, 35]],
    ['*/59 * * * *', 'minutes', [0, 59]],
    ['58-2 * * * *', 'minutes', [0, 1, 2, 58, 59]],
    ['0 22-2 * * *', 'hours', [0, 1, 2, 22, 23]],
    ['0 23-3/2 * * *', 'hours', [1, 3, 23]],
    ['0 20-4/5 * * *', 'hours', [1, 20]],
    ['0 23-1/23 * * *', 'hours', [23]],
    ['0 5-5 * * *', 'hours', [5]],
    ['@hourly', 'hours', to(0, 23)],
    ['@hourly', 'minutes', [0]],
    ['@Midnight', 'hours', [0]],
  ])('%s: %s', (expression, field, values) => {
    expect(parseCronExpression(expression)[field]).toEqual(values);
  });

  it.each<[expression: string, values: number[]]>([
    ['0 0 * * *', to(0, 6)],
    ['0 0 * * ?', to(0, 6)],
    ['0 0 * * 0', [0]],
    ['0 0 * * 7', [0]],
    ['0 0 * * 0,7', [0]],
    ['0 0 * * 0-7', to(0, 6)],
    ['0 0 * * 7-2', [0, 1, 2]],
    ['0 0 * * 5-7', [0, 5, 6]],
    ['0 0 * * 5-7/2', [0, 5]],
    ['0 0 * * FRI-MON', [0, 1, 5, 6]],
    ['0 0 * * sat-sun', [0, 6]],
    ['0 0 * * sat-tue/2', [1, 6]],
    ['0 0 * * Monday,wednesday', [1, 3]],
    ['0 0 * * Mon/2', [1, 3, 5]],
    ['0 0 * * 0/2', [0, 2, 4, 6]],
    ['0 0 * * */7', [0]],
  ])('days of the week of %s', (expression, values) => {
    expect(parseCronExpression(expression).days.daysOfWeek).toEqual(values);
  });

  it.each<[expression: string, values: number[]]>([
    ['0 0 1 JAN *', [1]],
    ['0 0 1 november-february *', [1, 2, 11, 12]],
    ['0 0 1 10-3/3 *', [1, 10]],
    ['0 0 1 */5 *', [1, 6, 11]],
    ['@yearly', [1]],
    ['@annually', [1]],
    ['@monthly', to(1, 12)],
  ])('months of %s', (expression, values) => {
    expect(parseCronExpression(expression).days.months).toEqual(values);
  });

  it('takes blanks of any kind', () => {
    expect(parseCronExpression(' 0\t9  *\n*   1-5 ').hours).toEqual([9]);
  });

  it('gives a value that cannot be changed', () => {
    const cron = parseCronExpression('0 9 * * *');
    expect([cron, cron.hours, cron.days, cron.days.rulesOfMonth].every(Object.isFrozen)).toBe(true);
  });
});

describe('the days that match in a month', () => {
  const daysIn = (expression: string, month: string) => {
    const bits = matchingDays(parseCronExpression(expression).days, monthOf(Date.parse(`${month}-01`) / 86_400_000));
    return Array.from({ length: 31 }, (_, i) => i + 1).filter((day) => bits & (1 << (day - 1)));
  };

  it.each<[expression: string, month: string, days: number[], why: string]>([
    ['0 0 29 2 *', '2024-02', [29], 'leap year'],
    ['0 0 29 2 *', '2000-02', [29], 'a leap year of a century'],
    ['0 0 29 2 *', '2100-02', [], 'no leap year'],
    ['0 0 28-3 * *', '2023-02', [1, 2, 3, 28], 'a range over the end of the month'],
    ['0 0 28-3 * *', '2023-03', [1, 2, 3, 28, 29, 30, 31], 'a range over the end of a longer one'],
    ['0 0 L * *', '2023-02', [28], 'last day'],
    ['0 0 L * *', '2024-12', [31], 'last day'],
    ['0 0 L-3 * *', '2024-02', [26], 'three before the last'],
    ['0 0 l-30 * *', '2024-01', [1], 'the first, counted back'],
    ['0 0 L-30 * *', '2024-04', [], 'a month too short for it'],
    ['0 0 L,15 * *', '2024-04', [15, 30], 'in a list'],
    ['0 0 1W * *', '2025-11', [3], 'the 1st is a Saturday: not in the month before'],
    ['0 0 1W * *', '2026-02', [2], 'the 1st is a Sunday'],
    ['0 0 15W * *', '2025-11', [14], 'a Saturday: Friday before'],
    ['0 0 16W * *', '2025-11', [17], 'a Sunday: Monday after'],
    ['0 0 31W * *', '2025-08', [29], 'the last is a Sunday: not in the month after'],
    ['0 0 31W * *', '2025-04', [], 'no such day'],
    ['0 0 30W * *', '2025-11', [28], 'the last is a Sunday: not in the month after'],
    ['0 0 LW * *', '2025-08', [29], 'the last weekday'],
    ['0 0 LW * *', '2026-02', [27], 'the last is a Saturday'],
    ['0 0 LW * *', '2025-12', [31], 'the last is a weekday'],
    ['0 0 L-1W * *', '2025-11', [28], 'the last but one is a Saturday'],
    ['0 0 * * 5L', '2025-10', [31], 'last Friday, the fifth'],
    ['0 0 * * friL', '2025-11', [28], 'last Friday, the fourth'],
    ['0 0 * * 7L', '2025-02', [23], 'last Sunday'],
    ['0 0 * * FRI#L', '2025-11', [28], 'last Friday'],
    ['0 0 * * 1L,5L', '2025-01', [27, 31], 'two of them'],
    ['0 0 * * MON#1', '2025-12', [1], 'first Monday'],
    ['0 0 * * 7#2', '2025-06', [8], 'second Sunday'],
    ['0 0 * * 6#5', '2013-11', [30], 'a fifth Saturday'],
    ['0 0 * * 6#5', '2013-12', [], 'none'],
    ['0 0 13 * 5', '2025-06', [6, 13, 20, 27], 'either day field is enough'],
    ['0 0 L * 1#1', '2025-06', [2, 30], 'either, also for L and #'],
    ['0 0 ? * 1#1', '2025-06', [2], '? restricts nothing'],
    ['0 0 */2 * 0', '2025-06', [1, 15, 29], 'a field that begins with * is not a restriction: both must match'],
    ['0 0 1-7 * */7', '2025-06', [1], 'the first Sunday, in Vixie cron'],
    ['0 0 1-31 * 0', '2025-06', Array.from({ length: 30 }, (_, i) => i + 1), '1-31 is a restriction by its spelling'],
  ])('%s in %s: %j (%s)', (expression, month, days) => {
    expect(daysIn(expression, month)).toEqual(days);
  });
});

describe('fixed and wildcard schedules', () => {
  it.each([
    ['30 2 * * *', true],
    ['0,30 1-5 * * *', true],
    ['*/10 30 2 * * *', true],
    ['@daily', true],
    ['*/15 2 * * *', false],
    ['0 */2 * * *', false],
    ['30 * * * *', false],
    ['@hourly', false],
  ])('%s: fixed is %s', (expression, fixed) => {
    expect(parseCronExpression(expression).fixed).toBe(fixed);
  });
});

describe('H', () => {
  /** Never to be changed: replicas of two releases run side by side. */
  const PINNED = { minutes: [8], hours: [20], daysOfMonth: [3] };

  it('depends on the name alone, and on each field of its own', () => {
    const { minutes, hours, days } = parseCronExpression('H H H * *', { jobName: 'nightly-invoice-export' });
    expect({ minutes, hours, daysOfMonth: days.daysOfMonth }).toEqual(PINNED);
  });

  it('keeps to its range and its step', () => {
    for (let i = 0; i < 200; i++) {
      const options = { jobName: `job-${i}` };
      const [minute] = parseCronExpression('H(10-29) * * * *', options).minutes;
      expect(minute >= 10 && minute <= 29).toBe(true);
      const quarters = parseCronExpression('H/15 * * * *', options).minutes;
      expect(quarters.map((value) => value - quarters[0])).toEqual([0, 15, 30, 45]);
      expect(parseCronExpression('0 0 H * *', options).days.daysOfMonth[0]).toBeLessThanOrEqual(28);
      expect(parseCronExpression('H(0-5)/10 * * * *', options).minutes[0]).toBeLessThanOrEqual(5);
    }
  });

  it('spreads', () => {
    const minutes = Array.from(
      { length: 600 },
      (_, i) => parseCronExpression('H * * * *', { jobName: `job-${i}` }).minutes[0],
    );
    expect(new Set(minutes).size).toBe(60);
  });
});

describe('what is refused', () => {
  it.each([
    ['0 25 * * *', 'Cron "0 25 * * *": hour 25 is outside 0-23.'],
    ['60 * * * *', 'Cron "60 * * * *": minute 60 is outside 0-59.'],
    ['99999999/1 * * * *', 'Cron "99999999/1 * * * *": minute 99999999 is outside 0-59.'],
    ['0 0 0 * *', 'Cron "0 0 0 * *": day of month 0 is outside 1-31.'],
    ['0 0 1 13 *', 'Cron "0 0 1 13 *": month 13 is outside 1-12.'],
    ['0 0 * * 8', 'Cron "0 0 * * 8": day of week 8 is outside 0-7.'],
    ['*/90 * * * *', 'Cron "*/90 * * * *": minute step 90 is outside 1-59.'],
    ['0 */24 * * *', 'Cron "0 */24 * * *": hour step 24 is outside 1-23.'],
    ['5/0 * * * *', 'Cron "5/0 * * * *": minute step 0 is outside 1-59.'],
    ['0 0 * janu *', 'Cron "0 0 * janu *": month "janu" is not a number from 1 to 12 or a name such as jan.'],
    ['0 0 MON * *', 'Cron "0 0 MON * *": day of month "MON" is not a number from 1 to 31.'],
    ['1k * * * *', 'Cron "1k * * * *": minute "1k" is not *, a number from 0 to 59, a range or a step.'],
    ['1,,2 * * * *', 'Cron "1,,2 * * * *": minute "1,,2" has an empty list item.'],
    [
      '? * * * *',
      'Cron "? * * * *": minute "?" has a ?, which may only stand alone, as a day of month or day of week.',
    ],
    ['0 0 * * L', 'Cron "0 0 * * L": day of week "L" does not say which day; write 5L for the last Friday.'],
    ['0 0 * * 5#6', 'Cron "0 0 * * 5#6": day of week "5#6" has 6 after the #, outside 1-5.'],
    ['0 0 L-31 * *', 'Cron "0 0 L-31 * *": day of month "L-31" counts back 31 days, but at most 30 are possible.'],
    ['H 2 * * *', 'Cron "H 2 * * *": minute "H" needs the name of a job to be spread by: give jobName.'],
    [
      '@every 5m',
      'Cron "@every 5m": alias "@every 5m" is unknown; @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly are known.',
    ],
    [
      '* * * *',
      'Cron "* * * *": has 4 fields, but 5 are expected (minute, hour, day of month, month, day of week), or 6 with a second before them.',
    ],
  ])('%s', (expression, message) => {
    expect(() => parseCronExpression(expression)).toThrow(expect.objectContaining({ code: 'invalid-cron' }));
    expect(() => parseCronExpression(expression)).toThrow(message);
  });

  it.each([
    '',
    ' ',
    '0',
    '* * * * * * *',
    '-1 * * * *',
    '+1 * * * *',
    '1.5 * * * *',
    '*-5 * * * *',
    '1-2-3 * * * *',
    '1/2/3 * * * *',
    '5- * * * *',
    '*/ * * * *',
    '** * * * *',
    '0 0 W * *',
    '0 0 0W * *',
    '0 0 32W * *',
    '0 0 1-5W * *',
    '0 0 WL * *',
    '0 0 L-0-1 * *',
    '0 0 ?,5 * *',
    '0 0 ?/2 * *',
    '0 0 * * #2',
    '0 0 * * 1#',
    '0 0 * * 1#0',
    '0 0 * * 1-5#2',
    '0 0 * * L-2',
    '0 0 * * 5W',
    'L * * * *',
    '0 0 1 L *',
    '0 0 * JANU-MAR *',
    '0 0 * * MO',
    '0 0 * * SU0',
    '@',
    '@@daily',
    '@reboot',
    'CRON_TZ=UTC 0 0 * * *',
    '0 0 * * \u0661',
  ])('"%s"', (expression) => {
    expect(() => parseCronExpression(expression)).toThrow(expect.objectContaining({ code: 'invalid-cron' }));
  });

  it.each(['0 0 30 2 *', '0 0 30-31 2 *', '0 0 31 4,6,9,11 *', '0 0 L-30 2 *', '0 0 31W 4 *', '0 0 */16 * 1L'])(
    '%s, which never fires',
    (expression) => {
      expect(() => parseCronExpression(expression)).toThrow(
        `Cron "${expression}": never fires, because no year has such a date.`,
      );
    },
  );

  it('something that is no string, and something endless', () => {
    expect(() => parseCronExpression(undefined as never)).toThrow(
      'Cron "undefined": a string is expected, not undefined.',
    );
    expect(() => parseCronExpression('1,'.repeat(1_000))).toThrow('2000 characters are more than the 1000 allowed');
    expect(() => parseCronExpression('H H H * *', { jobName: 'a' })).not.toThrow();
    expect(() => parseCronExpression('H(9-2) * * * *', { jobName: 'a' })).toThrow(
      'minute "H(9-2)" goes down from 9 to 2.',
    );
  });
});
