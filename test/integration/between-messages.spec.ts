import { Injectable, Module } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import pg from 'pg';
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
import { atEachAnswer } from '../support/at-each-answer.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, nextEvent, startApp } from './support/apps.js';
import { inRun, type InRun } from './support/in-run.js';

let database: TestDatabase;
let other: pg.Client;
beforeAll(async () => {
  database = await createTestDatabase();
  await database.query('create table effects (what text)');
  other = new pg.Client({ connectionString: database.url });
  await other.connect();
  // What is held by a statement that is under way is free in a moment.
  await other.query(`set lock_timeout = '1s'`);
});
beforeEach(async () => {
  await database.query(
    `do $$ begin if to_regclass('job_runs') is not null then truncate job_runs, receipts, job_pages; end if; end $$`,
  );
});
afterEach(closeApps);
afterAll(async () => {
  await other.end();
  await database.drop();
});

/**
 * What somebody else would have to wait for at this moment. `for no key update` is what renewals, `replace` and ends
 * take.
 */
const NEEDED = [
  ['the row of a run', 'select from job_runs for no key update'],
  ['the row of a page', 'select from job_pages for no key update'],
  ['a receipt that is there', 'select from receipts for no key update'],
  ['the lock of a job', 'select name from job_schedule where not pg_try_advisory_xact_lock(job_lock_1(name))'],
] as const;

/** Notes what is held whenever the process that holds it is waited for. */
function watching(app: { get(token: typeof SchedulerDatabase): SchedulerDatabase }): {
  readonly held: string[];
  begin(): Promise<void>;
} {
  const held: string[] = [];
  const scheduler = app.get(SchedulerDatabase);
  let turn: Promise<unknown> = Promise.resolve();
  const look = async (sent: string) => {
    for (const [what, sql] of NEEDED) {
      const busy = await other.query(sql).then(
        ({ rows }) => rows.length > 0 && what === 'the lock of a job',
        ({ code }: { code: string }) => code === '55P03',
      );
      if (busy) held.push(`${what}, after: ${sent.replaceAll(/\s+/g, ' ').slice(0, 100)}`);
    }
  };
  const inTurn = (sent: string) => {
    const mine = turn.then(() => look(sent));
    turn = mine.catch(() => {});
    return mine;
  };
  return {
    held,
    async begin() {
      for (const source of [await scheduler.receipts(), scheduler.coordination]) atEachAnswer(source, inTurn);
    },
  };
}

const write = (what: string) => (manager: { query(sql: string, values: unknown[]): Promise<unknown> }) =>
  manager.query('insert into effects values ($1)', [what]);
const failing = () => Promise.reject(new Error('no answer'));

const FORMS: [string, (here: InRun) => Promise<unknown>][] = [
  ['once', async ({ receipts }) => [await receipts.once('a', write('a')), await receipts.once('a', write('a'))]],
  [
    'once, in a transaction of the application',
    async ({ receipts, app }) =>
      (await app.get(SchedulerDatabase).receipts()).transaction((manager) =>
        receipts.once('a', write('a'), { in: manager }),
      ),
  ],
  [
    'once, in a strict transaction of the application',
    async ({ receipts, app }) =>
      (await app.get(SchedulerDatabase).receipts()).transaction('SERIALIZABLE', (manager) =>
        receipts.once('a', write('a'), { in: manager }),
      ),
  ],
  ['onceForOccurrence', ({ receipts, run }) => receipts.onceForOccurrence(run, 'a', write('a'))],
  ['onceEach', ({ receipts }) => receipts.onceEach(['a', 'b'], (what, manager) => write(what)(manager), { batch: 1 })],
  [
    'onceExternal',
    async ({ receipts }) => [
      await receipts.onceExternal('a', () => 1, { inDoubt: 'park' }),
      await receipts.onceExternal('a', () => 1, { inDoubt: 'park' }),
    ],
  ],
  [
    'onceExternal, parked',
    async ({ receipts }) => [
      await receipts.onceExternal('a', failing, { inDoubt: 'park' }).catch(() => {}),
      await receipts.onceExternal('a', () => 1, { inDoubt: 'park' }),
    ],
  ],
  [
    'onceExternal, sent again',
    async ({ receipts }) => [
      await receipts.onceExternal('a', failing, { inDoubt: 'resend' }).catch(() => {}),
      await receipts.onceExternal('a', () => 1, { inDoubt: 'resend' }),
    ],
  ],
  [
    'onceExternal, surely not done',
    async ({ receipts }) => [
      await receipts.onceExternal('a', failing, { inDoubt: 'park', notDone: () => true }).catch(() => {}),
      await receipts.onceExternal('a', () => 1, { inDoubt: 'park' }),
    ],
  ],
  [
    'resolveInDoubt',
    async ({ receipts, run, app }) => {
      await receipts.onceExternal('a', failing, { inDoubt: 'park' }).catch(() => {});
      return app
        .get(SchedulerService)
        .resolveInDoubt({ jobName: run.jobName }, 'done', { by: 'anna', reason: 'asked' });
    },
  ],
  ['run.transaction', ({ run }) => run.transaction(write('a'))],
  ['run.transaction with a checkpoint', ({ run }) => run.transaction(write('a'), { checkpoint: { page: 2 } })],
  ['run.transaction that completes', ({ run }) => run.transaction(write('a'), { complete: true })],
  [
    'run.checkpoint',
    async ({ run }) => [await run.checkpoint.save(1), await run.checkpoint.get(), await run.checkpoint.clear()],
  ],
  ['run.complete', ({ run }) => run.complete()],
];

describe('a process that is frozen, or busy, between any two of its messages', () => {
  it.each(FORMS)('holds nothing that others wait for in %s', async (_form, work) => {
    const held = await inRun(database, async (here) => {
      const watch = watching(here.app);
      await watch.begin();
      await work(here);
      return watch.held;
    });
    expect(held).toEqual([]);
  });

  it('holds nothing that others wait for while pages are published, worked, tried again and ended', async () => {
    @Injectable()
    class Pages {
      constructor(
        private readonly fanOut: FanOutService,
        private readonly receipts: ReceiptService,
      ) {}

      @DistributedCron('0 0 1 1 *', { name: 'pages', backoff: 10 })
      tick() {
        return this.fanOut.publish([1, 2, 3]);
      }

      @DistributedCronPage('pages', { concurrency: 1, maxAttempts: 2, backoff: 10 })
      async page(run: CronRun, { id }: { id: string }) {
        await this.receipts.once(id, write(id));
        if (id === '1' && run.attempt === 1) throw new Error('once more');
      }
    }
    @Module({ providers: [{ provide: PAGE_QUEUE, useValue: new InMemoryPageQueue() }], exports: [PAGE_QUEUE] })
    class QueueModule {}
    const app = await startApp(database, { imports: [QueueModule], providers: [Pages] }, { pollInterval: '100ms' });
    const watch = watching(app);
    await watch.begin();
    const ended = nextEvent(app, 'run.completed');
    await app.get(SchedulerService).runNow('pages', { by: 'test' });
    await ended;
    // What runNow holds is not this test's.
    expect(watch.held.filter((what) => !what.startsWith('the lock of a job'))).toEqual([]);
  });
});
