import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { DistributedCron } from '../../lib/index.js';
import { eventually } from '../cluster/harness/eventually.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, startApp } from './support/apps.js';

let database: TestDatabase;
beforeEach(async () => {
  database = await createTestDatabase();
});
afterEach(async () => {
  await closeApps();
  await database.drop();
});

function version(cron: string) {
  @Injectable()
  class Jobs {
    @DistributedCron(cron, { name: 'job' })
    job() {}
  }
  return Jobs;
}

const presences = () => database.query<{ id: string; alive_until: Date; here: boolean }>(
  'select id, alive_until, alive_until > clock_timestamp() as here from job_instances order by started_at',
);

it('in an outage of the database nobody is gone: who is back first does not take over from those who are back next', async () => {
  await startApp(database, { providers: [version('0 3 * * *')] }, { pollInterval: '2s' });
  await startApp(database, { providers: [version('0 4 * * *')] }, { pollInterval: '1s' });
  // The old one has just looked in: the new one is the first to look in after what comes.
  const before = (await presences())[0]!.alive_until;
  await eventually('the old one to look in', async () => (await presences())[0]!.alive_until > before);
  await database.query(`update job_instances set alive_until = now() - interval '1 second'`);
  await eventually('both to be back', async () => (await presences()).every(({ here }) => here));
  expect(await database.query('select cron from job_schedule')).toEqual([{ cron: '0 3 * * *' }]);
});
