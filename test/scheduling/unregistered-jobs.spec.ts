import { beforeEach, describe, expect, it } from '@jest/globals';
import { KnownJobs } from '../../lib/jobs/known-jobs.js';
import type { JobDefinition } from '../../lib/options/job-definition.js';
import { SchedulerEvents } from '../../lib/observe/scheduler-events.js';
import { wordingOf } from '../../lib/observe/wording.js';
import { UnregisteredJobs } from '../../lib/jobs/live-instances.service.js';
import type { JobInstanceStore, UnregisteredJob } from '../../lib/jobs/job-instance.store.js';
import { aJob } from '../support/job.js';

let said: string[];
/** The names whose runs the reaper is to reap. */
let orphaned: (readonly string[])[];
beforeEach(() => {
  said = [];
  orphaned = [];
});

const found = (name: string, changes: Partial<UnregisteredJob> = {}): UnregisteredJob => ({
  name,
  cron: '0 3 * * *',
  timeZone: 'UTC',
  handler: null,
  ...changes,
});

/** What an instance with these jobs says of what no live instance declares. */
async function look(stored: UnregisteredJob[], declared: JobDefinition[]): Promise<void> {
  const known = new KnownJobs();
  known.declare({
    jobs: declared.map((definition) => ({ definition, handler: async () => undefined })),
    handlers: new Map(),
  });
  const events = new SchedulerEvents();
  events.subscribe((event) => said.push(wordingOf(event)!.text));
  const instances = { unregistered: async () => stored } as Partial<JobInstanceStore> as JobInstanceStore;
  const jobs = new UnregisteredJobs(instances, known, events);
  await jobs.look('one');
  await jobs.look('one');
  if (known.unregistered.length > 0) orphaned.push(known.unregistered);
}

describe('of jobs that no live instance declares any more', () => {
  it('one is told, with what it may be called now', async () => {
    await look([found('old')], [aJob('new', '0 3 * * *')]);
    expect(said).toEqual([
      `No live instance declares old any more: it is not run. new has the same schedule: if that is old under a new name, declare it with previously: 'old', and it goes on where that was`,
    ]);
    expect(orphaned).toEqual([['old']]);
  });

  it('none is said to be called now as a job that says what it was called before', async () => {
    await look([found('old')], [aJob('new', '0 3 * * *', { previously: ['another'] })]);
    expect(said).toEqual([
      `No live instance declares old any more: it is not run. If it was renamed, declare the new name with previously: 'old', and it goes on where that was`,
    ]);
  });

  it('several are told in one line', async () => {
    await look(
      [found('a'), found('b', { cron: '0 4 * * *' }), found('c', { cron: '0 5 * * *' })],
      [aJob('new-b', '0 4 * * *')],
    );
    expect(said).toEqual([
      `No live instance declares a, b and c any more: they are not run. If one was renamed, declare the new name with previously and the old one, and it goes on where that was. Same schedule: new-b as b had`,
    ]);
  });

  it('one that a job here declares as its former name is no news: it is about to be taken over', async () => {
    await look([found('old')], [aJob('new', '0 3 * * *', { previously: ['old'] })]);
    expect([said, orphaned]).toEqual([[], []]);
  });

  it('those made at run time miss their handlers', async () => {
    await look(
      [found('r1', { handler: 'rep' }), found('r2', { handler: 'rep' }), found('r3', { handler: 'sum' }), found('old')],
      [aJob('new', '0 5 * * *')],
    );
    expect(said).toEqual([
      `No live instance declares old any more: it is not run. If it was renamed, declare the new name with previously: 'old', and it goes on where that was. ` +
        `No live instance has the handler "rep" of r1 and r2, made at run time: they are not run until one has. ` +
        `No live instance has the handler "sum" of r3, made at run time: it is not run until one has`,
    ]);
    said = [];
    await look([found('r1', { handler: 'rep' })], [aJob('same-schedule', '0 3 * * *')]);
    expect(said).toEqual([
      `No live instance has the handler "rep" of r1, made at run time: it is not run until one has`,
    ]);
  });
});
