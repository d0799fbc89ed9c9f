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

const presences = () =>
  database.query<{ id: string; alive_until: Date; here: boolean }>(
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

it('when all were killed, the next version follows its own schedule at once, and runs nothing of the one before', async () => {
  const settings = { pollInterval: '1s' } as const;
  await startApp(database, { providers: [version('0 3 * * *')] }, settings);
  await closeApps();
  await database.query(
    `update job_schedule set effective_from = now() - interval '3 days', decided_until = now() - interval '3 days'`,
  );
  await database.query(
    `insert into job_instances (id, jobs, handlers, alive_until) values ('killed', '{"job": ["0 3 * * *", "UTC"]}', '[]', now() - interval '1 second')`,
  );
  await eventually('the server to have been up for a while', async () => {
    const [server] = await database.query<{ settled: boolean }>(
      `select clock_timestamp() > pg_postmaster_start_time() + interval '10 seconds' as settled`,
    );
    return server!.settled;
  });
  await startApp(database, { providers: [version('0 4 * * *')] }, settings);
  expect(await database.query('select cron from job_schedule')).toEqual([{ cron: '0 4 * * *' }]);
  expect(await database.query('select status, reason from job_runs')).toEqual([
    { status: 'skipped', reason: 'superseded by an edit' },
  ]);
});
