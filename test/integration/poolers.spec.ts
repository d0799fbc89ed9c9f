import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { once } from 'node:events';
import { DistributedCron, SchedulerService, type CronRun } from '../../lib/index.js';
import { eventually } from '../cluster/harness/eventually.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { describeWithPgBouncer, PgBouncer } from '../support/pgbouncer.js';
import { Renumbering } from '../support/renumbering.js';
import { closeApps, nextEvent, startApp } from './support/apps.js';

let database: TestDatabase;
let pooler: { readonly url: string; end(): void | Promise<void> } | null = null;
beforeEach(async () => {
  database = await createTestDatabase();
});
afterEach(async () => {
  await closeApps();
  await pooler?.end();
  pooler = null;
  await database.drop();
});

const OPS = { by: 'ops', reason: 'because' };

@Injectable()
class Jobs {
  @DistributedCron('0 3 29 2 *', { name: 'export', lease: '1s', renewEvery: '100ms' })
  async export(run: CronRun) {
    if (!run.signal.aborted) await once(run.signal, 'abort');
  }
}

/** A run that is started and cancelled by another instance, longer than its lease apart. */
async function anotherCancels(url: string) {
  const app = await startApp({ ...database, url }, { providers: [Jobs] }, { pollInterval: '200ms' });
  const verbs = (await startApp({ ...database, url }, { providers: [Jobs] }, { enabled: false })).get(SchedulerService);
  const started = nextEvent(app, 'run.started');
  const { fireTime } = await verbs.runNow('export', OPS);
  await started;
  const [before] = await database.query<{ lease_until: Date }>('select lease_until from job_runs');
  await eventually('a lease that goes on', async () => {
    const [now] = await database.query<{ lease_until: Date }>('select lease_until from job_runs');
    return now!.lease_until.getTime() > before!.lease_until.getTime() + 1_000;
  });
  const cancelled = nextEvent(app, 'run.cancelled');
  await verbs.cancel('export', fireTime, OPS);
  expect(await cancelled).toMatchObject({ fireTime, attempt: 1, reason: 'cancelled by ops: because' });
}

/** The last statements of connections that listened and did nothing since. */
const listening = () =>
  database.query(`select from pg_stat_activity where datname = current_database() and query ilike 'listen%'`);

describe('an instance', () => {
  const idle = async () => {
    await startApp(database, { providers: [Jobs] });
    return listening();
  };

  it('listens on the heartbeat’s connection', async () => {
    expect(await idle()).toHaveLength(1);
  });
});

describe('behind a pooler, which numbers its connections itself', () => {
  it('nobody listens: the connection may be somebody else’s a moment later', async () => {
    pooler = await Renumbering.to(database.url);
    await startApp({ ...database, url: pooler.url }, { providers: [Jobs] });
    expect(await listening()).toEqual([]);
  });

  it('what another instance does is seen at the next poll', async () => {
    pooler = await Renumbering.to(database.url);
    await anotherCancels(pooler.url);
  });
});

describeWithPgBouncer('behind PgBouncer in transaction mode', () => {
  it('nobody listens, runs keep their leases, and what another instance does is seen at the next poll', async () => {
    pooler = await PgBouncer.to(database.url);
    await anotherCancels(pooler.url);
    expect(await listening()).toEqual([]);
    expect(
      await database.query(
        `select from pg_stat_activity where datname = current_database() and application_name like 'nestjs%'`,
      ),
    ).not.toEqual([]);
  });
});
