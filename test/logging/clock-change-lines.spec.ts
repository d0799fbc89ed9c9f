import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { calendarText } from '../../lib/cron/calendar.js';
import type { JobDefinition } from '../../lib/options/job-definition.js';
import { compileSchedule } from '../../lib/cron/schedule.js';
import { SchedulerEvents } from '../../lib/observe/scheduler-events.js';
import { SchedulerLogger } from '../../lib/observe/scheduler-logger.js';
import type { ResolvedSchedulerOptions } from '../../lib/options/resolve-options.js';
import { aJob } from '../support/job.js';

const NOW = new Date('2026-11-29T12:00:00Z');

let warnings: string[];

beforeEach(() => {
  warnings = [];
  Logger.overrideLogger({ log: () => {}, error: () => {}, warn: (text: string) => warnings.push(text) });
});
afterEach(() => Logger.overrideLogger(false));

function job(expression: string, timeZone: string, name = 'daily-invoices'): JobDefinition {
  return { ...aJob(name, '* * * * *'), schedule: compileSchedule(expression, timeZone, name) };
}

function warnedAbout(jobs: JobDefinition[], logging = true): string[] {
  new SchedulerLogger({ logging } as ResolvedSchedulerOptions, new SchedulerEvents()).listJobs(jobs, NOW);
  return warnings;
}

describe('what is said at start-up about the clock changes of the next year', () => {
  it.each<[expression: string, timeZone: string, lines: string[]]>([
    [
      '15 2 * * *',
      'Europe/Berlin',
      [
        'daily-invoices: on 2027-03-28 02:15 does not exist in Europe/Berlin; it runs at 03:00 (2027-03-28T01:00:00.000Z)',
      ],
    ],
    [
      '0,30 2 * * *',
      'Europe/Berlin',
      [
        'daily-invoices: on 2027-03-28 02:00 and 02:30 do not exist in Europe/Berlin; it runs once, at 03:00 (2027-03-28T01:00:00.000Z)',
      ],
    ],
    [
      '*/10 2 * * *',
      'America/New_York',
      [
        'daily-invoices: on 2027-03-14 02:00, 02:10, 02:20, 02:30 and 2 more do not exist in America/New_York; nothing runs for them',
      ],
    ],
    [
      '*/30 1 * * *',
      'America/New_York',
      [
        'daily-invoices: on 2027-11-07 01:00 and 01:30 come twice in America/New_York; it runs both times (first at 2027-11-07T05:00:00.000Z and 2027-11-07T06:00:00.000Z)',
      ],
    ],
    [
      '*/45 2 * * *',
      'Australia/Lord_Howe',
      ['daily-invoices: on 2027-10-03 02:00 does not exist in Australia/Lord_Howe; nothing runs for it'],
    ],
    [
      '*/45 1 * * SUN',
      'Australia/Lord_Howe',
      [
        'daily-invoices: on 2027-04-04 01:45 comes twice in Australia/Lord_Howe; it runs both times (at 2027-04-03T14:45:00.000Z and 2027-04-03T15:15:00.000Z)',
      ],
    ],
    [
      '0 0 * * *',
      'Africa/Cairo',
      [
        'daily-invoices: on 2027-04-30 00:00 does not exist in Africa/Cairo; it runs at 01:00 (2027-04-29T22:00:00.000Z)',
      ],
    ],
    ['*/5 * * * *', 'Europe/Berlin', []],
    ['30 * * * *', 'Europe/Berlin', []],
    ['0 */2 * * *', 'Europe/Berlin', []],
    ['15 4 * * *', 'Europe/Berlin', []],
    ['15 2 * * MON', 'Europe/Berlin', []],
    ['15 2 * * *', 'Asia/Kolkata', []],
    ['15 2 * * *', 'UTC', []],
  ])('%s in %s: %j', (expression, timeZone, lines) => {
    expect(warnedAbout([job(expression, timeZone)])).toEqual(lines);
  });

  it('a line for each job up to twenty, and one for all of more', () => {
    const jobs = Array.from({ length: 21 }, (_, index) => job('15 2 * * *', 'Europe/Berlin', `job-${index}`));
    expect(warnedAbout(jobs.slice(1))).toHaveLength(20);
    warnings = [];
    expect(warnedAbout([...jobs, job('* * * * *', 'Europe/Berlin')])).toEqual([
      'Within a year, clock changes move, double or skip occurrences of 21 jobs: job-0, job-1, job-2, job-3, job-4 and 16 more',
    ]);
  });

  it('that a schedule is over, and why', () => {
    const until = (endAt: string) => ({
      ...job('0 9 * * *', 'UTC'),
      schedule: compileSchedule('0 9 * * *', 'UTC', 'daily-invoices', calendarText({ endAt: new Date(endAt) })),
    });
    const over = 'daily-invoices: it never fires again, for its endAt (2020-01-01T00:00:00.000Z) is past';
    expect(warnedAbout([until('2020-01-01T00:00:00Z')])).toEqual([over]);
    warnings.length = 0;
    expect(warnedAbout([until('2099-01-01T00:00:00Z')])).toEqual([]);
  });

  it('nothing with logging: false', () => {
    expect(warnedAbout([job('15 2 1 * 1', 'Europe/Berlin')], false)).toEqual([]);
  });
});
