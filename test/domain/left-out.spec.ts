import { describe, expect, it } from '@jest/globals';
import { calendarText } from '../../lib/cron/calendar.js';
import { leftOutBy } from '../../lib/operations/planned-times.service.js';
import { compileSchedule } from '../../lib/cron/schedule.js';

const CALENDAR = calendarText({
  startAt: new Date('2026-03-01T00:00:00Z'),
  endAt: new Date('2027-01-01T00:00:00Z'),
  exclude: ['2026-03-10', '* * * * 6-7'],
});

describe('what a calendar leaves out', () => {
  it.each<[string, string | null]>([
    ['2026-02-27T01:15:00Z', 'startAt: 2026-03-01T00:00:00.000Z'],
    ['2026-03-10T01:15:00Z', 'exclude: 2026-03-10'],
    ['2026-03-14T01:15:00Z', 'exclude: * * * * 6-7'],
    ['2027-01-04T01:15:00Z', 'endAt: 2027-01-01T00:00:00.000Z'],
    ['2026-03-11T01:15:00Z', null],
    ['2026-03-10T01:16:00Z', null],
  ])('of %s is named: %s', (at, rule) => {
    expect(leftOutBy(compileSchedule('15 2 * * *', 'Europe/Berlin', 'job', CALENDAR), Date.parse(at), 'job')).toBe(
      rule,
    );
  });

  it('is nothing where there is none', () => {
    expect(leftOutBy(compileSchedule('15 2 * * *', 'UTC'), Date.parse('2026-03-10T02:15:00Z'), 'job')).toBeNull();
  });
});
