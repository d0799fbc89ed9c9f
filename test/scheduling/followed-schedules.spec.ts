import { beforeEach, describe, expect, it } from '@jest/globals';
import { KnownJobs } from '../../lib/jobs/known-jobs.js';
import type { SchedulerEvent } from '../../lib/observe/scheduler-event.js';
import { SchedulerEvents } from '../../lib/observe/scheduler-events.js';
import type { ResolvedSchedulerOptions } from '../../lib/options/resolve-options.js';
import { FollowedSchedules } from '../../lib/jobs/followed-schedules.js';
import { JobCursors } from '../../lib/jobs/job-cursors.js';
import type { StoredJob } from '../../lib/jobs/stored-job.js';
import { aJob } from '../support/job.js';

const aStored = (revision: number, changes: Partial<StoredJob> = {}): StoredJob => ({
  name: 'job',
  cron: '0 3 * * *',
  timeZone: 'UTC',
  calendar: null,
  overridden: false,
  decidedUntil: revision,
  revision,
  yieldsTo: null,
  removed: false,
  held: null,
  runTime: null,
  ...changes,
});
const handler = async () => undefined;

let told: SchedulerEvent[];
let cursors: JobCursors;
let followed: FollowedSchedules;
beforeEach(() => {
  told = [];
  cursors = new JobCursors();
  const events = new SchedulerEvents();
  events.subscribe((event) => told.push(event));
  const known = new KnownJobs();
  known.declare({
    jobs: [{ definition: aJob('job', '0 3 * * *'), handler }],
    handlers: new Map([['report', { handler, declaredBy: 'Reports.send' }]]),
  });
  followed = new FollowedSchedules(
    { jobDefaults: {}, retentionMs: null } as ResolvedSchedulerOptions,
    known,
    cursors,
    events,
  );
});

const tell = () =>
  told
    .splice(0)
    .map((event) => [
      event.type,
      ...('was' in event ? [event.schedule, event.was, ...(event.updated ? ['updated'] : [])] : []),
    ]);
const expressionOf = (name: string) => cursors.get(name)?.job.schedule.expression;

describe('the schedules an instance follows', () => {
  it('as they are declared are no news at the start', () => {
    followed.take(aStored(1));
    followed.started();
    expect([tell(), followed.contestedJobs]).toEqual([[], []]);
  });

  it('are those of the database; what the code declares is contested until it holds', () => {
    followed.take(aStored(1, { cron: '0 4 * * *' }));
    expect(expressionOf('job')).toBe('0 4 * * *');
    followed.started();
    expect(tell()).toEqual([['job.contested']]);
    expect(followed.contestedJobs.map(({ schedule }) => schedule.expression)).toEqual(['0 3 * * *']);
    followed.take(aStored(2));
    expect(tell()).toEqual([['job.scheduled', '"0 3 * * *" (UTC)', '"0 4 * * *" (UTC)']]);
    expect([expressionOf('job'), followed.contestedJobs]).toEqual(['0 3 * * *', []]);
  });

  it('are told at the start to be held back, where an operator does so, and not where another name is scheduled', () => {
    const held = { hold: 'paused', since: new Date(0), until: null, by: 'ops', reason: null } as const;
    followed.take(aStored(1, { held }));
    followed.started();
    expect(tell()).toEqual([['job.held']]);
    followed.take(aStored(2, { held, yieldsTo: 'other' }));
    tell();
    followed.started();
    expect(tell()).toEqual([['job.contested']]);
  });

  it('are taken once: a cursor that has moved does not go back', () => {
    followed.take(aStored(1));
    const cursor = cursors.get('job')!;
    followed.take(aStored(1));
    expect(cursors.get('job')).toBe(cursor);
  });

  it('that change in other things are told without what they were: it is the same', () => {
    const stored = (revision: number, data: number) =>
      aStored(revision, { name: 'made', runTime: { handler: 'report', options: {}, data } });
    followed.started();
    followed.take(stored(1, 1));
    followed.take(stored(2, 2));
    expect(tell()).toEqual([
      ['job.scheduled', '"0 3 * * *" (UTC)', null],
      ['job.scheduled', '"0 3 * * *" (UTC)', null, 'updated'],
    ]);
    expect(cursors.get('made')!.job.data).toBe(2);
  });

  it('under another name are none of this one', () => {
    followed.take(aStored(1));
    followed.started();
    followed.take(aStored(2, { yieldsTo: 'new-name' }));
    expect([tell(), cursors.get('job')]).toEqual([[['job.unscheduled']], undefined]);
    followed.take(aStored(3));
    expect(tell()).toEqual([['job.scheduled', '"0 3 * * *" (UTC)', 'the name "new-name"']]);
  });
});
