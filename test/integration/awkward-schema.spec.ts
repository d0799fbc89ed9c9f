import { Injectable, Module } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { EntityManager } from 'typeorm';
import {
  DistributedCron,
  DistributedCronPage,
  FanOutService,
  PAGE_QUEUE,
  ReceiptService,
  SchedulerService,
  type CronRun,
} from '../../lib/index.js';
import { SchedulerDatabase } from '../../lib/database/scheduler-database.js';
import { InMemoryPageQueue } from '../../lib/testing/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, nextEvent, startApp } from './support/apps.js';
import { inRun, type InRun } from './support/in-run.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
  await database.query('create table effects (what text)');
});
afterEach(closeApps);
afterAll(() => database.drop());

/** A name in which the place of a parameter can be read, and everything else that a name may have. */
const SCHEMA = 'a$1b-c D é';
const write = (manager: EntityManager) =>
  manager.query('insert into effects values ($1)', [`it's $1 of "$2"`]).then(() => 'written');
const inTheirs = async (
  { app }: InRun,
  level: 'READ COMMITTED' | 'SERIALIZABLE',
  work: (manager: EntityManager) => Promise<unknown>,
) => (await app.get(SchedulerDatabase).receipts()).transaction(level, work);
const failing = () => Promise.reject(new Error('no answer'));

const FORMS: [string, (here: InRun) => Promise<unknown>, unknown][] = [
  ['once', ({ receipts }) => receipts.once('$1', write), { applied: true, result: 'written' }],
  [
    'once a second time',
    async ({ receipts }) => [await receipts.once('$1', write), await receipts.once('$1', write)][1],
    { applied: false, result: 'written' },
  ],
  [
    'once in the application’s transaction',
    (here) => inTheirs(here, 'READ COMMITTED', (manager) => here.receipts.once('$1', write, { in: manager })),
    { applied: true, result: 'written' },
  ],
  [
    'once in the application’s strict transaction',
    (here) => inTheirs(here, 'SERIALIZABLE', (manager) => here.receipts.once('$1', write, { in: manager })),
    { applied: true, result: 'written' },
  ],
  [
    'onceForOccurrence',
    ({ receipts, run }) => receipts.onceForOccurrence(run, '$1', write),
    { applied: true, result: 'written' },
  ],
  [
    'onceEach',
    ({ receipts }) => receipts.onceEach(['$1', '$2'], (_, manager) => write(manager)),
    { applied: 2, skipped: 0, failed: [] },
  ],
  [
    'onceBatch',
    ({ receipts }) => receipts.onceBatch(['$1', '$2'], (_, manager) => write(manager)),
    { applied: 2, skipped: 0, failed: [] },
  ],
  [
    'pending',
    async ({ receipts }) => {
      await receipts.once('$1', write);
      const left: string[] = [];
      for await (const one of receipts.pending(['$1', '$2'])) left.push(one);
      return left;
    },
    ['$2'],
  ],
  [
    'onceExternal',
    ({ receipts }) => receipts.onceExternal('$1', () => 'sent', { inDoubt: 'park' }),
    { applied: true, inDoubt: false, result: 'sent' },
  ],
  [
    'onceExternal in doubt, and its resolution',
    async ({ receipts, run, app }) => {
      await receipts.onceExternal('$1', failing, { inDoubt: 'park' }).catch(() => {});
      expect(await receipts.onceExternal('$1', () => 'sent', { inDoubt: 'park' })).toMatchObject({ inDoubt: true });
      expect(await app.get(SchedulerService).inDoubt({ jobName: run.jobName })).toMatchObject([{ entity: '$1' }]);
      await app
        .get(SchedulerService)
        .resolveInDoubt({ jobName: run.jobName }, 'undone', { by: 'anna', reason: 'asked' });
      return receipts.onceExternal('$1', () => 'sent', { inDoubt: 'park' });
    },
    { applied: true, inDoubt: false, result: 'sent' },
  ],
  [
    'run.checkpoint',
    async ({ run }) => [await run.checkpoint.save('$1'), await run.checkpoint.get()],
    [undefined, '$1'],
  ],
  ['run.transaction with a checkpoint', ({ run }) => run.transaction(write, { checkpoint: '$1' }), 'written'],
  ['run.transaction that completes', ({ run }) => run.transaction(write, { complete: true }), 'written'],
];

describe(`in the schema ${SCHEMA}`, () => {
  it.each(FORMS)('%s works', async (_form, work, expected) => {
    expect(await inRun(database, work, { schema: SCHEMA })).toEqual(expected);
  });

  it('pages are published, worked and ended', async () => {
    @Injectable()
    class Pages {
      constructor(
        private readonly fanOut: FanOutService,
        private readonly receipts: ReceiptService,
      ) {}

      @DistributedCron('0 0 1 1 *', { name: '$1', backoff: 10 })
      tick() {
        return this.fanOut.publish([{ id: '$1', data: '$2' }]);
      }

      @DistributedCronPage('$1', { backoff: 10 })
      async page(run: CronRun, { id, data }: { id: string; data: unknown }) {
        await this.receipts.once(id, write);
        if (run.attempt === 1) throw new Error(`$1 ${String(data)}`);
      }
    }
    @Module({ providers: [{ provide: PAGE_QUEUE, useValue: new InMemoryPageQueue() }], exports: [PAGE_QUEUE] })
    class QueueModule {}
    const app = await startApp(
      database,
      { imports: [QueueModule], providers: [Pages] },
      { pollInterval: '100ms', schema: SCHEMA },
    );
    const ended = nextEvent(app, 'run.completed');
    await app.get(SchedulerService).runNow('$1', { by: 'test' });
    await ended;
    expect(await database.query(`select attempt, status from "${SCHEMA}".job_pages`)).toEqual([
      { attempt: 2, status: 'done' },
    ]);
  });
});
