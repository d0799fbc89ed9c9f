import { Injectable } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { DataSource } from 'typeorm';
import {
  CronRun,
  DistributedCron,
  DistributedSchedulerModule,
  ReceiptService,
  SchedulerService,
  type DistributedSchedulerOptions,
} from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, nextEvent, nextRun, startModules } from './support/apps.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
  await database.query('create table effects (job text, what text)');
});
afterAll(() => database.drop());

const sources: DataSource[] = [];
const restored: (() => void)[] = [];
afterEach(async () => {
  restored.splice(0).forEach((restore) => restore());
  await closeApps();
  await Promise.all(sources.splice(0).map((source) => source.destroy()));
});

type Parser = (text: string) => unknown;
type Types = { getTypeParser(oid: number): Parser };

async function sourceOf(extra: object = {}): Promise<DataSource> {
  const source = await new DataSource({ type: 'postgres', url: database.url, poolSize: 3, extra }).initialize();
  sources.push(source);
  return source;
}

/** For the whole process, until the test is over. */
function parseAs(oid: number, parser: Parser): void {
  const before = pg.types.getTypeParser(oid) as Parser;
  pg.types.setTypeParser(oid, parser);
  restored.push(() => pg.types.setTypeParser(oid, before));
}

let jobs = 0;
const OPS = { by: 'ops', reason: 'because' };

/** A run of two attempts that does everything a handler can, most of it twice, and what an operator does around it. */
async function story(options: DistributedSchedulerOptions, mine: DataSource): Promise<void> {
  const name = `job-${(jobs += 1)}`;
  const calls: string[] = [];
  const found: unknown[] = [];
  @Injectable()
  class Job {
    constructor(private readonly receipts: ReceiptService) {}

    @DistributedCron('0 0 29 2 *', { name, backoff: 10, maxAttempts: 3 })
    async run(run: CronRun) {
      const { receipts } = this;
      const write = (what: string) => (manager: { query(sql: string, values: unknown[]): Promise<unknown> }) =>
        manager.query('insert into effects values ($1, $2)', [name, what]);
      const call = async (key: string) => void calls.push(key);
      for (const _again of [1, 2]) {
        await receipts.once('receipt', write('receipt'));
        await receipts.once('in mine', write('in mine'), { in: mine });
        await mine.transaction((manager) => receipts.once('joined', write('joined'), { in: manager }));
        await mine.transaction('SERIALIZABLE', (manager) => receipts.once('strict', write('strict'), { in: manager }));
        await receipts.onceExternal('call', call, { inDoubt: 'park' });
        await receipts.onceEach(['each 1', 'each 2'], (entity, manager) => write(entity)(manager));
        await receipts.onceBatch(
          ['batch 1', 'batch 2'],
          async (entities, manager) => {
            for (const entity of entities) await write(entity)(manager);
          },
          { effect: 'batch' },
        );
        for await (const entity of receipts.pending(['each 1', 'pending'])) found.push(entity);
      }
      const step = await run.checkpoint.get<{ step: number }>();
      found.push(step);
      if (!step) await run.checkpoint.save({ step: 1 });
      if (step?.step !== 2) await run.transaction(write('transaction'), { checkpoint: { step: 2 } });
      if (run.attempt === 1) throw new Error('at the end');
    }
  }
  const app = await startModules({
    imports: [DistributedSchedulerModule.forRoot({ migrate: true, logging: false, pollInterval: 100, ...options })],
    providers: [Job],
  });
  const scheduler = app.get(SchedulerService);
  await scheduler.pause(name, OPS);
  const entry = async () => (await scheduler.inventory()).find((job) => job.name === name)!;
  expect(await entry()).toMatchObject({
    enabled: true,
    paused: { since: expect.any(Date), until: null, by: 'ops' },
    overridden: null,
  });
  expect(await scheduler.resume(name, OPS)).toBe(true);
  expect(await scheduler.resume(name, OPS)).toBe(false);
  expect(await entry()).toMatchObject({ enabled: true, paused: null });
  const [failed, ended] = [nextEvent(app, 'run.failed'), nextRun(app, name)];
  const { fireTime } = await scheduler.runNow(name, OPS);
  expect(await failed).toMatchObject({ jobName: name, fireTime, attempt: 1, error: { message: 'at the end' } });
  expect(await ended).toMatchObject({ fireTime, attempt: 2 });
  expect(await scheduler.explain(name, fireTime)).toMatchObject({
    starts: [{ attempt: 1, startedAt: expect.any(Date) }, { attempt: 2 }],
    beside: [],
    inDoubt: [],
  });
  expect((await scheduler.actions({ jobName: name })).map(({ action, at }) => [action, at instanceof Date])).toEqual(
    expect.arrayContaining([
      ['pause', true],
      ['resume', true],
    ]),
  );
  expect(calls).toHaveLength(1);
  expect(found).toEqual(['pending', 'pending', undefined, 'pending', 'pending', { step: 2 }]);
  const [row] = await database.query<{ all: string }>(
    `select string_agg(what, ', ' order by what) as all from effects where job = $1`,
    [name],
  );
  expect(row!.all).toBe('batch 1, batch 2, each 1, each 2, in mine, joined, receipt, strict, transaction');
}

const IDENTITY: Parser = (text) => text;

describe('B42 each effect is once over two attempts, whatever the application makes of types', () => {
  const PARSERS: [string, number, Parser][] = [
    ...[16, 20, 21, 23, 25, 114, 1009, 1114, 1184, 1700, 2950, 3802].map((oid): [string, number, Parser] => [
      `type ${oid} as it comes`,
      oid,
      IDENTITY,
    ]),
    ...[20, 21, 23].map((oid): [string, number, Parser] => [`type ${oid} as BigInt`, oid, BigInt]),
  ];

  it.each(PARSERS)(
    '%s, in the whole process',
    async (_what, oid, parser) => {
      parseAs(oid, parser);
      await story({ connection: database.url }, await sourceOf());
      await closeApps();
      const dataSource = await sourceOf();
      await story({ dataSource }, dataSource);
    },
    60_000,
  );

  it.each<[string, { types?: Types; binary?: boolean }]>([
    ['nothing', { types: { getTypeParser: () => IDENTITY } }],
    [
      'booleans, as true and false in words',
      { types: { getTypeParser: (oid) => (oid === 16 ? (text) => (text === 't' ? 'true' : 'false') : IDENTITY) } },
    ],
    ['all, in its binary form', { binary: true }],
  ])(
    'its pool parses %s',
    async (_what, extra) => {
      const dataSource = await sourceOf(extra);
      await story({ dataSource }, dataSource);
      await closeApps();
      await story({ connection: { url: database.url, extra } }, dataSource);
    },
    60_000,
  );
});
