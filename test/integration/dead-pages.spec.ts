import { Injectable, Module } from '@nestjs/common';
import type { TestingModule } from '@nestjs/testing';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import {
  CancelledError,
  CronRun,
  DistributedCron,
  DistributedCronPage,
  FanOutService,
  PAGE_QUEUE,
  ReceiptService,
  SchedulerService,
  type Page,
} from '../../lib/index.js';
import { InMemoryPageQueue } from '../../lib/testing/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { latch } from '../support/latch.js';
import { until } from '../support/until.js';
import { closeApps, nextEvent, startApp } from './support/apps.js';

let database: TestDatabase;
let app: TestingModule;
let scheduler: SchedulerService;
let fireTime: Date;
let ticks: number;
let broken: Set<string>;
let handle: (run: CronRun, page: Page) => Promise<unknown>;

@Injectable()
class Statements {
  constructor(
    private readonly fanOut: FanOutService,
    private readonly receipts: ReceiptService,
  ) {}

  @DistributedCron('0 0 1 1 *', { name: 'statements' })
  async tick() {
    ticks += 1;
    await this.fanOut.publish(['a', 'b', 'c', 'd'].map((id) => ({ id })));
  }

  @DistributedCronPage('statements', { maxAttempts: 1 })
  async page(run: CronRun, page: Page) {
    await this.receipts.once(page.id, () => run.attempt);
    await handle(run, page);
  }
}

@Module({ providers: [{ provide: PAGE_QUEUE, useFactory: () => new InMemoryPageQueue() }], exports: [PAGE_QUEUE] })
class QueueModule {}

beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());
afterEach(closeApps);

beforeEach(async () => {
  ticks = 0;
  broken = new Set(['b', 'c']);
  handle = async (_run, { id }) => {
    if (broken.has(id)) throw new Error(`no such customer: ${id}`);
  };
  app = await startApp(database, { imports: [QueueModule], providers: [Statements] }, { pollInterval: '100ms' });
  scheduler = app.get(SchedulerService);
});

async function runUntil(end: 'run.dead' | 'run.completed' | 'run.cancelled'): Promise<void> {
  const ended = nextEvent(app, end);
  ({ fireTime } = await scheduler.runNow('statements', { by: 'test' }));
  await ended;
}

const pages = () =>
  database.query<{ page: string; status: string; attempt: number }>(
    'select page, status, attempt from job_pages where fire_time = $1 order by page',
    [fireTime],
  );
const run = async () =>
  (await database.query('select status, reason, attempt from job_runs where fire_time = $1', [fireTime]))[0];
const ADA = { by: 'ada', reason: 'mended' };

describe('dead pages', () => {
  it('are listed with their data and error, and replayed: the tick is not called, and what is done stays done', async () => {
    await runUntil('run.dead');
    expect(await scheduler.deadPages({ jobName: 'statements', fireTime, errorContains: 'CUSTOMER: C' })).toMatchObject({
      pages: [{ page: 'c', attempt: 1, error: { message: 'no such customer: c' } }],
      left: 0,
    });
    expect(await scheduler.replayPages({ fireTime }, ADA, { dryRun: true })).toEqual({ pages: 2, left: 0 });
    broken.clear();
    const done = nextEvent(app, 'run.completed');
    expect(await scheduler.replayPages({ fireTime }, ADA)).toEqual({ pages: 2, left: 0 });
    await done;
    expect(ticks).toBe(1);
    expect((await pages()).map(({ page, status, attempt }) => `${page} ${status} ${attempt}`)).toEqual([
      'a done 1',
      'b done 2',
      'c done 2',
      'd done 1',
    ]);
    // The receipts of the first attempt held.
    expect(
      await database.query('select entity, attempt from receipts where fire_time = $1 order by entity', [fireTime]),
    ).toEqual(['a', 'b', 'c', 'd'].map((entity) => ({ entity, attempt: 1 })));
    expect((await scheduler.actions({ jobName: 'statements', limit: 1 }))[0]).toMatchObject({
      action: 'replay-pages',
      fireTime,
      actor: 'ada',
      reason: 'mended',
      details: { pages: 2 },
    });
  });

  it('may be replayed one by one: the occurrence is dead again with the others', async () => {
    await runUntil('run.dead');
    broken.delete('b');
    const dead = nextEvent(app, 'run.dead');
    expect(await scheduler.replayPages({ jobName: 'statements', fireTime, page: 'b' }, ADA)).toEqual({
      pages: 1,
      left: 0,
    });
    await dead;
    expect(await run()).toMatchObject({ status: 'dead', reason: 'pages dead: 1 of 4' });
  });

  it('are discarded for a reason; without any the occurrence waits for nobody', async () => {
    await runUntil('run.dead');
    await expect(scheduler.discardPages({ fireTime }, { by: 'ada' })).rejects.toThrow(
      'SchedulerService.discardPages: reason: say why',
    );
    expect(await scheduler.discardPages({ fireTime, page: 'b' }, ADA)).toEqual({ pages: 1, left: 0 });
    expect(await run()).toMatchObject({ status: 'dead' });
    expect(await scheduler.discardPages({ fireTime }, ADA)).toEqual({ pages: 1, left: 0 });
    expect(await run()).toMatchObject({ status: 'cancelled', reason: 'discarded: mended' });
  });

  it.each([
    ['replay', () => scheduler.replay('statements', fireTime, ADA)],
    ['replayAll', () => scheduler.replayAll({ jobName: 'statements', from: fireTime, to: fireTime }, ADA)],
  ])(
    'begin again by %s of their occurrence, which does not call the tick, and leaves alone what was discarded',
    async (_verb, replay) => {
      await runUntil('run.dead');
      await scheduler.discardPages({ fireTime, page: 'b' }, ADA);
      broken.clear();
      const done = nextEvent(app, 'run.completed');
      await replay();
      await done;
      expect(ticks).toBe(1);
      expect((await pages()).map(({ page, status }) => `${page} ${status}`)).toEqual([
        'a done',
        'b cancelled',
        'c done',
        'd done',
      ]);
    },
  );
});

describe('cancel of an occurrence that is fanned out', () => {
  it('cancels what waits, tells the handlers of what is under way, and ends with the last of those', async () => {
    const begun = latch();
    let told: unknown;
    handle = async ({ signal }, { id }) => {
      if (id !== 'd') return;
      begun.open();
      await new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject((told = signal.reason))));
    };
    ({ fireTime } = await scheduler.runNow('statements', { by: 'test' }));
    await begun.opened;
    await until(async () => expect(await run()).toMatchObject({ status: 'fanned_out' }));
    const cancelled = nextEvent(app, 'run.cancelled');
    expect(await scheduler.cancel('statements', fireTime, ADA)).toBe('requested');
    expect((await cancelled).reason).toBe('cancelled by ada: mended');
    expect(told).toBeInstanceOf(CancelledError);
    expect(await run()).toMatchObject({ status: 'cancelled' });
    expect((await pages()).at(-1)).toMatchObject({ page: 'd', status: 'cancelled' });
  });
});
