import { Injectable } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { DataSource } from 'typeorm';
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
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, nextRun, startModules } from './support/apps.js';

let database: TestDatabase;
let name: string;
const sources: DataSource[] = [];
const { PGOPTIONS } = process.env;
beforeEach(async () => {
  database = await createTestDatabase();
  name = new URL(database.url).pathname.slice(1);
});
afterEach(async () => {
  await closeApps();
  await Promise.all(sources.splice(0).map((source) => source.destroy()));
  await database.drop();
  if (PGOPTIONS === undefined) delete process.env.PGOPTIONS;
  else process.env.PGOPTIONS = PGOPTIONS;
});

type Settings = Record<string, string>;

const LIMITS: Settings = {
  statement_timeout: '1500',
  lock_timeout: '200',
  idle_in_transaction_session_timeout: '1000',
  idle_session_timeout: '1200',
  transaction_timeout: '1500',
};
const MEANINGS: Settings = {
  default_transaction_isolation: 'serializable',
  default_transaction_deferrable: 'on',
  standard_conforming_strings: 'off',
  escape_string_warning: 'on',
  array_nulls: 'off',
  search_path: 'pg_catalog',
  TimeZone: 'Asia/Kathmandu',
  DateStyle: 'German, DMY',
  IntervalStyle: 'sql_standard',
  extra_float_digits: '-3',
  bytea_output: 'escape',
};

/** Those that this server knows. */
async function known(settings: Settings): Promise<Settings> {
  const rows = await database.query<{ name: string }>('select name from pg_settings where name = any ($1)', [
    Object.keys(settings),
  ]);
  return Object.fromEntries(Object.entries(settings).filter(([setting]) => rows.some((row) => row.name === setting)));
}

const byDatabase = async (settings: Settings) => {
  for (const [setting, value] of Object.entries(await known(settings)))
    await database.query(`alter database ${name} set ${setting} = '${value}'`);
};
const byOptions = async (settings: Settings) => {
  process.env.PGOPTIONS = Object.entries(await known(settings))
    .map(([setting, value]) => `-c ${setting}=${value.replaceAll(' ', '\\ ')}`)
    .join(' ');
};

const NASTY = `it's a "\\" \\' $1 $$ ; -- 💥`;
const OPS = { by: `O'Neill \\`, reason: NASTY };

describe('B61 settings of the role, the database or the environment change nothing', () => {
  it.each<[string, Settings, (settings: Settings) => Promise<void>]>([
    ['limits, of the database', LIMITS, byDatabase],
    ['limits, in PGOPTIONS', LIMITS, byOptions],
    ['what statements mean, of the database', MEANINGS, byDatabase],
    ['what statements mean, in PGOPTIONS', MEANINGS, byOptions],
  ])(
    '%s',
    async (_what, settings, set) => {
      const ways: (() => Promise<DistributedSchedulerOptions>)[] = [
        async () => ({ connection: database.url }),
        async () => {
          const dataSource = await new DataSource({
            type: 'postgres',
            url: database.url,
            poolSize: 3,
            poolErrorHandler: () => {},
          }).initialize();
          sources.push(dataSource);
          return { dataSource };
        },
      ];
      await database.query('create table effects (what text)');
      await set(settings);
      for (const [index, way] of ways.entries()) await story(`job ${index}`, await way());
    },
    60_000,
  );

  async function story(jobName: string, options: DistributedSchedulerOptions): Promise<void> {
    @Injectable()
    class Jobs {
      constructor(private readonly receipts: ReceiptService) {}

      @DistributedCron('0 0 29 2 *', { name: jobName, lease: '3s' })
      async run(run: CronRun) {
        const write = (manager: { query(sql: string, values: unknown[]): Promise<unknown> }) =>
          manager.query('insert into public.effects values ($1)', [jobName]);
        for (const _again of [1, 2]) {
          await this.receipts.once(NASTY, write);
          await this.receipts.onceEach([`${NASTY} 1`, `${NASTY} 2`], (_entity, manager) => write(manager));
          await this.receipts.onceExternal(`${NASTY} call`, async () => ({ answer: NASTY }), { inDoubt: 'park' });
        }
        await run.checkpoint.save({ at: NASTY });
        await sleep(4_500);
        expect(await run.checkpoint.get()).toEqual({ at: NASTY });
        await this.receipts.once('late', write);
      }
    }
    const app = await startModules({
      imports: [
        DistributedSchedulerModule.forRoot({
          migrate: true,
          logging: false,
          pollInterval: 200,
          fastFailover: true,
          ...options,
        }),
      ],
      providers: [Jobs],
    });
    const failures: SchedulerEvent[] = [];
    app
      .get(SchedulerEvents)
      .of('loop.failed', 'heartbeat.failed', 'lease.lost', 'run.failed')
      .subscribe((event) => void failures.push(event));
    const scheduler = app.get(SchedulerService);
    const ended = nextRun(app, jobName);
    const { fireTime } = await scheduler.runNow(jobName, OPS);
    await scheduler.pause(jobName, OPS);
    expect((await scheduler.inventory()).find((job) => job.name === jobName)).toMatchObject({
      paused: { since: expect.any(Date), by: OPS.by, reason: NASTY },
    });
    await scheduler.resume(jobName, OPS);
    expect(await ended.catch(() => failures)).toMatchObject({ fireTime, attempt: 1 });
    expect((await scheduler.explain(jobName, fireTime)).starts).toHaveLength(1);
    expect((await scheduler.actions({ jobName })).map(({ reason }) => reason)).toEqual(expect.arrayContaining([NASTY]));
    expect(failures).toEqual([]);
    const [row] = await database.query<{ count: string }>(
      'select count(*)::text as count from public.effects where what = $1',
      [jobName],
    );
    expect(row!.count).toBe('4');
    await closeApps();
  }
});
