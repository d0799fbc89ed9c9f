import { describe, expect, it } from '@jest/globals';
import type { RegisteredJob, RunTimeHandler } from '../../lib/jobs/known-jobs.js';
import { calendarText } from '../../lib/cron/calendar.js';
import { compileSchedule } from '../../lib/cron/schedule.js';
import { followedJob } from '../../lib/jobs/followed-schedules.js';
import type { StoredJob } from '../../lib/jobs/stored-job.js';
import { aJob } from '../support/job.js';

const handler = async () => undefined;
const HANDLERS = new Map<string, RunTimeHandler>([['report', { handler, declaredBy: 'Reports.send' }]]);
const DECLARED: RegisteredJob = { definition: aJob('job', '0 3 * * *'), handler };

const aStored = (changes: Partial<StoredJob> = {}): StoredJob => ({
  name: 'job',
  cron: '0 3 * * *',
  timeZone: 'UTC',
  calendar: null,
  overridden: false,
  decidedUntil: 0,
  yieldsTo: null,
  removed: false,
  held: null,
  runTime: null,
  revision: 1,
  ...changes,
});
const MADE = { handler: 'report', options: { missed: 'all' }, data: 7 };

const follow = (stored: StoredJob, declared?: RegisteredJob) =>
  followedJob(stored, declared, HANDLERS, { jobDefaults: { timeZone: 'Europe/Berlin' }, retentionMs: 10 * 86_400_000 });
const scheduleOf = (stored: StoredJob, declared?: RegisteredJob) => {
  const followed = follow(stored, declared);
  return followed.kind === 'scheduled' ? followed.job.definition.schedule : followed;
};

describe('a job as the database has it', () => {
  it('that the code declares has the stored schedule, whatever the code says', () => {
    expect(follow(aStored(), DECLARED)).toEqual({ kind: 'scheduled', job: DECLARED });
    expect(scheduleOf(aStored({ cron: '0 4 * * *', timeZone: 'Asia/Tokyo' }), DECLARED)).toMatchObject({
      expression: '0 4 * * *',
      timeZone: 'Asia/Tokyo',
    });
  });

  it('is fired by whom the database says, and falls back on its schedule only where that is not the one to fire it', () => {
    const schedule = compileSchedule('0 3 * * *', 'UTC', 'job', calendarText({ trigger: 'external' }));
    const external: RegisteredJob = {
      definition: aJob('job', '0 3 * * *', { schedule, fallbackMs: 300_000 }),
      handler,
    };
    expect(follow(aStored({ calendar: schedule.calendar }), external)).toEqual({ kind: 'scheduled', job: external });
    expect(follow(aStored(), external)).toMatchObject({
      job: { definition: { schedule: { isExternal: false }, fallbackMs: null } },
    });
    expect(follow(aStored({ calendar: schedule.calendar }), DECLARED)).toMatchObject({
      job: { definition: { schedule: { isExternal: true }, fallbackMs: null } },
    });
    expect(follow(aStored({ calendar: '{"trigger":"moon"}' }), DECLARED)).toEqual({
      kind: 'unreadable',
      problem: expect.stringContaining('trigger: "moon" is unknown here'),
    });
  });

  it('that nobody declares here is left alone, as is one that was removed', () => {
    expect(follow(aStored())).toEqual({ kind: 'none' });
    expect(follow(aStored({ removed: true, runTime: MADE }))).toEqual({ kind: 'none' });
    expect(follow(aStored({ runTime: { ...MADE, handler: 'unknown' } }))).toEqual({ kind: 'none' });
  });

  it('made at run time has its handler, its data and the stored zone, whatever the default is here', () => {
    const stored = aStored({ runTime: MADE });
    expect(follow(stored)).toMatchObject({
      kind: 'scheduled',
      job: { handler, definition: { missed: 'all', data: 7, declaredBy: 'Reports.send' } },
    });
    expect(scheduleOf(stored)).toMatchObject({ expression: '0 3 * * *', timeZone: 'UTC' });
  });

  it('that is decided under another name is not scheduled, by whomever it was made', () => {
    expect(follow(aStored({ yieldsTo: 'new-name' }), DECLARED)).toEqual({ kind: 'waiting', job: DECLARED });
    expect(follow(aStored({ yieldsTo: 'new-name', runTime: MADE }))).toEqual({ kind: 'none' });
  });

  it('made at run time that may catch up what is forgotten by now is not run', () => {
    const stored = aStored({ runTime: { ...MADE, options: { catchUpWindow: '9d' } } });
    expect(follow(stored)).toMatchObject({ kind: 'scheduled' });
    expect(follow({ ...stored, runTime: { ...MADE, options: { catchUpWindow: '10d' } } })).toMatchObject({
      kind: 'unreadable',
      problem: expect.stringContaining('retention'),
    });
  });

  it('that cannot be read here is left to others', () => {
    expect(follow(aStored({ cron: 'never ever' }), DECLARED)).toMatchObject({
      kind: 'unreadable',
      problem: expect.stringContaining('never ever'),
    });
    expect(follow(aStored({ runTime: { ...MADE, options: { missed: 'perhaps' } } }))).toMatchObject({
      kind: 'unreadable',
    });
  });
});
