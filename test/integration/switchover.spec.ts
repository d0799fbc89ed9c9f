import { Injectable } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { DataSource } from 'typeorm';
import pg from 'pg';
import {
  CronRun,
  DistributedCron,
  DistributedSchedulerModule,
  ReceiptService,
  SchedulerEvents,
  SchedulerService,
  type DistributedSchedulerOptions,
  type SchedulerEvent,
} from '../../lib/index.js';
import { eventually } from '../cluster/harness/eventually.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { latch } from '../support/latch.js';
import { RestartableServer } from '../support/restartable-server.js';
import { closeApps, startModules } from './support/apps.js';

let server: RestartableServer;
let database: TestDatabase;
beforeAll(async () => {
  server = await RestartableServer.create();
  await server.start();
});
afterAll(() => server.remove());

const sources: DataSource[] = [];
beforeEach(async () => {
  database = await createTestDatabase(server.url);
  await database.query('create table effects (job text, fire_time timestamptz)');
});
afterEach(async () => {
  await onServer('alter system reset default_transaction_read_only', 'select pg_reload_conf()');
  await closeApps();
  await Promise.all(sources.splice(0).map((source) => source.destroy()));
  await database.drop();
});

async function onServer(...statements: string[]): Promise<void> {
  const client = new pg.Client({ connectionString: server.url });
  await client.connect();
  for (const statement of statements) await client.query(statement);
  await client.end();
}

/** The sessions that there are take no writes any more, as those that stay on a former primary; new ones do. */
async function switchOver(): Promise<void> {
  const name = new URL(database.url).pathname.slice(1);
  await onServer(
    `alter database ${name} set default_transaction_read_only = off`,
    'alter system set default_transaction_read_only = on',
    'select pg_reload_conf()',
  );
}

const NAMED = { application_name: 'under test' };

async function dataSource(): Promise<DataSource> {
  const source = await new DataSource({
    type: 'postgres',
    url: database.url,
    poolSize: 5,
    applicationName: 'under test',
  }).initialize();
  sources.push(source);
  // All its connections are there, as in an application that has been busy.
  const runners = Array.from({ length: 5 }, () => source.createQueryRunner());
  await Promise.all(runners.map((runner) => runner.connect()));
  await Promise.all(runners.map((runner) => runner.release()));
  return source;
}

const backends = () =>
  database.query<{ pid: number; what: string }>(
    `select pid, application_name as what from pg_stat_activity where datname = current_database() and application_name like 'nestjs-distributed-cron%'`,
  );

describe('B41 sessions that take no writes any more are left for new ones', () => {
  it.each<[string, () => Promise<DistributedSchedulerOptions>, 'all' | 'the receipts’ alone']>([
    ['all of them', async () => ({ connection: { url: database.url, extra: NAMED } }), 'all'],
    ['with fast failover', async () => ({ connection: { url: database.url }, fastFailover: true }), 'all'],
    ['with the application’s data source', async () => ({ dataSource: await dataSource() }), 'all'],
    ['those of receipts alone', async () => ({ connection: { url: database.url } }), 'the receipts’ alone'],
    [
      'those of the application’s data source alone',
      async () => ({ dataSource: await dataSource() }),
      'the receipts’ alone',
    ],
  ])(
    '%s',
    async (_which, options, stay) => {
      const [running, go] = [latch(), latch()];
      const calls: string[] = [];
      @Injectable()
      class Jobs {
        constructor(private readonly receipts: ReceiptService) {}

        @DistributedCron('* * * * * *', { name: 'tick' })
        tick() {}

        @DistributedCron('* * * * * *', { name: 'receipts', overlap: 'allow', maxAttempts: 1 })
        async write({ jobName, fireTime }: CronRun) {
          await this.receipts.once('1', (manager) =>
            manager.query('insert into effects values ($1, $2)', [jobName, fireTime]),
          );
          await this.receipts.onceExternal('call', async (key) => void calls.push(key), { inDoubt: 'park' });
        }

        @DistributedCron('0 0 29 2 *', { name: 'long', lease: '6s', maxAttempts: 3, backoff: 10 })
        async long() {
          running.open();
          await go.opened;
        }
      }
      const given = await options();
      const app = await startModules({
        imports: [DistributedSchedulerModule.forRoot({ migrate: true, logging: false, ...given })],
        providers: [Jobs],
      });
      const told: SchedulerEvent[] = [];
      app.get(SchedulerEvents).subscribe((event) => void told.push(event));
      const long = await app.get(SchedulerService).runNow('long', { by: 'ops', reason: 'a test' });
      await running.opened;
      await eventually(
        'a receipt',
        async () => told.some((event) => event.type === 'run.completed' && event.jobName === 'receipts'),
        { seen: async () => told.slice(-10) },
      );

      const before = await backends();
      await switchOver();
      if (stay !== 'all') {
        // Those of the scheduler alone come anew by themselves.
        await database.query(
          `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and query not like '%receipt%' and application_name <> 'under test'`,
        );
      }
      const [{ now }] = (await database.query<{ now: Date }>('select clock_timestamp() as now')) as [{ now: Date }];
      const done = (job: string) =>
        eventually(
          `runs of ${job} to be done`,
          async () => {
            const rows = await database.query(
              `select from job_runs where job_name = $1 and fire_time > $2 and status = 'done'`,
              [job, now],
            );
            return rows.length >= 3;
          },
          { seen: async () => told.slice(-10) },
        );
      await Promise.all([done('tick'), done('receipts')]);
      go.open();
      await eventually(
        'the run under way to be done',
        async () => {
          const [row] = await database.query<{ status: string }>(
            'select status from job_runs where job_name = $1 and fire_time = $2',
            ['long', long.fireTime],
          );
          return row?.status === 'done';
        },
        { seen: async () => told.slice(-10) },
      );
      await eventually(
        'the sessions of before to be gone',
        async () => {
          const left = await backends();
          return stay !== 'all' || before.every(({ pid }) => !left.some((one) => one.pid === pid));
        },
        { seen: backends },
      );
      // An attempt of a receipt that met such a session is not lost on it.
      expect(told.filter(({ type }) => type === 'run.dead')).toEqual([]);
      const [{ twice }] = (await database.query<{ twice: string }>(
        `select count(*) as twice from (select from effects group by job, fire_time having count(*) > 1) many`,
      )) as [{ twice: string }];
      expect(twice).toBe('0');
    },
    60_000,
  );
});
