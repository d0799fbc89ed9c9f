import { describe, expect, it } from '@jest/globals';
import { compileSchedule } from '../../lib/cron/schedule.js';

const at = (text: string) => Date.parse(text);

describe('an interval', () => {
  it('fires at multiples since 1970, whatever the zone and its clock changes are', () => {
    const schedule = compileSchedule('every 90s', 'America/New_York');
    expect(schedule.between(at('2027-03-14T06:59:00Z'), at('2027-03-14T07:05:00Z')).map((one) => one % 90_000)).toEqual(
      [0, 0, 0, 0],
    );
    expect(schedule.clockChanges(at('2027-03-01T00:00:00Z'), at('2027-04-01T00:00:00Z'))).toEqual([]);
  });

  it.each(['every 1s', 'every 7s', 'every 90 s', 'EVERY 5m', 'every 12h', 'every 2d'])(
    '%s is walked in both directions, and counted',
    (expression) => {
      const schedule = compileSchedule(expression, 'UTC');
      const from = at('2026-12-01T00:00:00Z') + 123;
      const found = schedule.between(from, Infinity, 50);
      expect(found).toHaveLength(50);
      expect(schedule.countBetween(from, found[49]!)).toBe(50);
      for (const [index, one] of found.entries()) {
        expect(schedule.nextAfter(one - 0.5)).toBe(one);
        expect(schedule.nextAfter(index === 0 ? from : found[index - 1]!)).toBe(one);
        expect(schedule.previousBefore(one + 1)).toBe(one);
        if (index > 0) expect(schedule.previousBefore(one)).toBe(found[index - 1]);
      }
      expect(schedule.between(from, found[2]!, 0)).toEqual([]);
      expect(schedule.between(found[2]!, from)).toEqual([]);
    },
  );

  it('works before 1970, and ends with time itself', () => {
    const schedule = compileSchedule('every 5m', 'UTC');
    expect(schedule.nextAfter(-1)).toBe(0);
    expect(schedule.previousBefore(0)).toBe(-300_000);
    expect(schedule.nextAfter(8.64e15)).toBeNull();
    expect(schedule.countBetween(8.64e15 - 300_000, Infinity)).toBe(1);
    expect(() => schedule.nextAfter(NaN)).toThrow(RangeError);
  });

  it('leaves days out that a calendar excludes', () => {
    const schedule = compileSchedule('every 12h', 'UTC', 'job', '{"exclude":["2026-12-25"]}');
    expect(schedule.between(at('2026-12-24T12:00:00Z'), at('2026-12-26T00:00:00Z'))).toEqual([
      at('2026-12-26T00:00:00Z'),
    ]);
  });

  it.each([
    'every',
    'every 0s',
    'every 1.5s',
    'every 1500ms',
    'every -5s',
    'every 5',
    'every 5m30s',
    'every 999999999d',
    'every day',
  ])('%s is refused with an example', (expression) =>
    expect(() => compileSchedule(expression, 'UTC')).toThrow(/interval is/),
  );
});
