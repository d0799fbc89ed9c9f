import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import type { TestingModule } from '@nestjs/testing';
import { DistributedCron, DistributedCronHandler, JobRegistry } from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, nextEvent, nextRun, startApp } from './support/apps.js';

@Injectable()
class Jobs {
  @DistributedCron('* * * * * *', { name: 'declared' })
  declared() {}

  @DistributedCronHandler('handler')
  handler() {}
}

let database: TestDatabase;
let app: TestingModule;
beforeEach(async () => {
  database = await createTestDatabase();
  app = await startApp(database, { providers: [Jobs] }, { pollInterval: 200 });
});
afterEach(async () => {
  await closeApps();
  await database.drop();
});

/** What people do with `job_schedule` in a console, past every revision. */
describe('a row that somebody', () => {
  it('edited is followed: the new expression holds when the next occurrence of the old one would have been due', async () => {
    await nextRun(app, 'declared');
    const followed = nextEvent(app, 'job.scheduled');
    await database.query(`update job_schedule set cron = '0 3 * * *', decided_until = now()`);
    expect(await followed).toMatchObject({ schedule: '"0 3 * * *" (UTC)', was: '"* * * * * *" (UTC)' });
  });

  it('deleted is made anew for a job that the code declares, and the job goes on', async () => {
    await nextRun(app, 'declared');
    await database.query('delete from job_schedule');
    await nextEvent(app, 'job.scheduled');
    await nextRun(app, 'declared');
    expect(await database.query('select cron from job_schedule')).toEqual([{ cron: '* * * * * *' }]);
  });

  it('deleted ends a job made at run time', async () => {
    await app.get(JobRegistry).add({ name: 'acme', cron: '* * * * * *', handler: 'handler' });
    await nextRun(app, 'acme');
    const ended = nextEvent(app, 'job.unscheduled', ({ jobName }) => jobName === 'acme');
    await database.query(`delete from job_schedule where name = 'acme'`);
    await ended;
    expect(app.get(JobRegistry).names()).toEqual(['declared']);
  });
});
