import { Injectable, Module } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import {
  CronRun,
  DistributedCron,
  DistributedCronPage,
  FanOutService,
  GiveUp,
  LeaseLostError,
  PAGE_QUEUE,
  ReceiptService,
  SchedulerService,
  type Page,
  type PageQueue,
} from '../../lib/index.js';
import { InMemoryPageQueue, runJob, runPages } from '../../lib/testing/index.js';
import { until } from '../support/until.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { HandQueue } from '../support/hand-queue.js';
import { latch, type Latch } from '../support/latch.js';
import { closeApps, nextEvent, startApp } from './support/apps.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterEach(closeApps);
afterAll(() => database.drop());

const BY = { by: 'test' };
const PAGES = Array.from({ length: 25 }, (_, index) => ({ id: `page-${index}`, data: { from: index * 10 } }));

/** What the handlers of one test do. */
let script: {
  tick: (run: CronRun, fanOut: FanOutService) => Promise<unknown>;
  page: (run: CronRun, page: Page<{ from: number }>, receipts: ReceiptService) => Promise<unknown>;
};
let queue: PageQueue;

@Injectable()
class Statements {
  constructor(
    private readonly fanOut: FanOutService,
    private readonly receipts: ReceiptService,
  ) {}

  @DistributedCron('0 0 1 1 *', { name: 'statements', backoff: 10 })
  tick(run: CronRun) {
    return script.tick(run, this.fanOut);
  }

  @DistributedCronPage('statements', { concurrency: 4, maxAttempts: 2, backoff: 10 })
  page(run: CronRun, page: Page<{ from: number }>) {
    return script.page(run, page, this.receipts);
  }
}

@Module({ providers: [{ provide: PAGE_QUEUE, useFactory: () => queue }], exports: [PAGE_QUEUE] })
class QueueModule {}

const start = () => startApp(database, { imports: [QueueModule], providers: [Statements] }, { pollInterval: '100ms' });
const pages = () =>
  database.query<{ page: string; status: string; attempt: number }>(
    'select page, status, attempt from job_pages order by page',
  );
const runs = () =>
  database.query<{ status: string; lease_until: Date | null; pages: number | null; reason: string | null }>(
    'select status, lease_until, pages, reason from job_runs',
  );

beforeEach(async () => {
  await database.query(
    'drop table if exists job_pages, receipts, job_runs, job_schedule, job_instances, job_backfills, job_actions, job_flags, job_alerts, distributed_cron_migrations cascade',
  );
  queue = new InMemoryPageQueue();
  script = { tick: (_run, fanOut) => fanOut.publish(PAGES), page: async () => undefined };
});

describe('an occurrence that is fanned out', () => {
  it('is worked by all replicas, each page once and in the context of the occurrence, and is done with its last page', async () => {
    const seen: { run: CronRun; page: Page<{ from: number }> }[] = [];
    script.page = async (run, page, receipts) => {
      seen.push({ run, page });
      await receipts.once(page.id, () => ({ from: page.data.from }));
    };
    const [app, other] = await Promise.all([start(), start()]);
    const ended = Promise.race([app, other].map((one) => nextEvent(one!, 'run.completed')));
    const fannedOut = Promise.race([app, other].map((one) => nextEvent(one!, 'run.fannedOut')));
    const { fireTime } = await app!.get(SchedulerService).runNow('statements', BY);
    expect(await fannedOut).toMatchObject({ fireTime, pages: 25 });
    expect(await ended).toMatchObject({ jobName: 'statements', fireTime, attempt: 1 });
    expect(await runs()).toEqual([{ status: 'done', lease_until: null, pages: 25, reason: null }]);
    expect(seen).toHaveLength(25);
    expect(new Set(seen.map(({ run }) => run.fireTime.getTime()))).toEqual(new Set([fireTime.getTime()]));
    expect(new Set(seen.map(({ run }) => run.idempotencyKey('x'))).size).toBe(1);
    expect(await database.query('select result from receipts where entity = $1', ['page-7'])).toEqual([
      { result: { from: 70 } },
    ]);
    expect(await app!.get(FanOutService).progress('statements', fireTime)).toMatchObject({ total: 25, done: 25 });
    expect((await app!.get(SchedulerService).explain('statements', fireTime)).text).toContain(
      'Fanned out into 25 pages: 25 done.',
    );
  });

  it('needs no instance between its tick and its last page, and says how far it is', async () => {
    const held = latch();
    script.page = async (_run, page) => (page.id === 'page-3' ? held.opened : undefined);
    const app = await start();
    const { fireTime } = await app.get(SchedulerService).runNow('statements', BY);
    await until(async () =>
      expect(await app.get(FanOutService).progress('statements', fireTime)).toMatchObject({
        total: 25,
        done: 24,
        running: 1,
      }),
    );
    expect(await runs()).toMatchObject([{ status: 'fanned_out', lease_until: null }]);
    const { kind, text } = await app.get(SchedulerService).explain('statements', fireTime);
    expect(kind).toBe('fanned_out');
    expect(text).toContain('Fanned out into 25 pages: 24 done, 1 running.');
    const ended = nextEvent(app, 'run.completed');
    held.open();
    await ended;
  });

  it('adds nothing when its tick is retried, and has the pages that a failed tick published', async () => {
    let ticks = 0;
    const published: unknown[] = [];
    script.tick = async (_run, fanOut) => {
      published.push(await fanOut.publish(ticks === 0 ? PAGES.slice(0, 10) : PAGES));
      ticks += 1;
      if (ticks === 1) throw new Error('after ten pages');
    };
    const counted = new Map<string, number>();
    script.page = async (_run, { id }) => void counted.set(id, (counted.get(id) ?? 0) + 1);
    const app = await start();
    const ended = nextEvent(app, 'run.completed');
    await app.get(SchedulerService).runNow('statements', BY);
    expect(await ended).toMatchObject({ attempt: 2 });
    expect(published).toEqual([
      { pages: 10, added: 10 },
      { pages: 25, added: 15 },
    ]);
    expect([...counted.values()]).toEqual(PAGES.map(() => 1));
  });

  it('is done without any page, and when a later attempt publishes none', async () => {
    script.tick = (_run, fanOut) => fanOut.publish([]);
    const app = await start();
    const ended = nextEvent(app, 'run.completed');
    await app.get(SchedulerService).runNow('statements', BY);
    await ended;
    expect(await runs()).toMatchObject([{ status: 'done', pages: null }]);
  });

  it('takes an async iterable, values without ids are named by their place', async () => {
    script.tick = (_run, fanOut) =>
      fanOut.publish(
        (async function* () {
          yield { from: 5 };
          yield { from: 6 };
        })(),
      );
    const app = await start();
    const ended = nextEvent(app, 'run.completed');
    await app.get(SchedulerService).runNow('statements', BY);
    await ended;
    expect(await database.query('select page, data from job_pages order by page')).toEqual([
      { page: '0', data: { from: 5 } },
      { page: '1', data: { from: 6 } },
    ]);
  });

  it('is dead when one of its pages is, after all have ended, and says which', async () => {
    script.page = async (_run, { id }) => {
      if (id === 'page-3') throw new Error('no such customer');
      if (id === 'page-4') throw new GiveUp('closed');
    };
    const app = await start();
    const dead = nextEvent(app, 'run.dead');
    await app.get(SchedulerService).runNow('statements', BY);
    const { error } = await dead;
    expect(error.message).toBe('Dead pages: 2 of 25. The first is page-3: Error: no such customer');
    expect(await runs()).toMatchObject([{ status: 'dead', reason: 'pages dead: 2 of 25' }]);
    expect((await pages()).filter(({ status }) => status !== 'done')).toEqual([
      { page: 'page-3', status: 'dead', attempt: 2 },
      { page: 'page-4', status: 'dead', attempt: 1 },
    ]);
  });

  it.each([
    [
      'two pages of one id',
      [
        { id: 'a', data: 1 },
        { id: 'a', data: 2 },
      ],
      'two pages have the id a',
    ],
    ['an id that cannot be stored', [{ id: ' ', data: 1 }], 'the id of page 0 has to be'],
    ['data that are no JSON', [{ id: 'a', data: () => 1 }], 'page a: its data have to be JSON'],
  ])('fails its tick for %s', async (_what, given, message) => {
    script.tick = (_run, fanOut) =>
      fanOut.publish<unknown>(given).catch((error: Error) => Promise.reject(new GiveUp(error.message)));
    const app = await start();
    const dead = nextEvent(app, 'run.dead');
    await app.get(SchedulerService).runNow('statements', BY);
    expect((await dead).error.message).toContain(message);
  });
});

describe('a page', () => {
  let hand: HandQueue;
  const tickets = async (count: number) => {
    await until(async () => expect(hand.tickets.length).toBeGreaterThanOrEqual(count));
    return hand.tickets;
  };

  beforeEach(() => {
    queue = hand = new HandQueue();
    script.tick = (_run, fanOut) => fanOut.publish(PAGES.slice(0, 2));
  });

  it('that is delivered again is its new worker’s: completion and receipts of the older one are refused', async () => {
    const held: Latch[] = [latch(), latch()];
    const outcomes: string[] = [];
    let deliveries = 0;
    script.page = async (run, page, receipts) => {
      const mine = deliveries++;
      await held[mine]!.opened;
      await receipts
        .once(page.id, () => run.attempt)
        .then(
          () => outcomes.push(`written by ${run.attempt}`),
          (error) => outcomes.push(`${run.attempt} refused: ${error instanceof LeaseLostError}`),
        );
    };
    const app = await start();
    await app.get(SchedulerService).runNow('statements', BY);
    const [ticket] = await tickets(2);
    const first = hand.deliver(ticket!);
    await until(async () => expect(deliveries).toBe(1));
    const second = hand.deliver(ticket!);
    await until(async () => expect(deliveries).toBe(2));
    const lost = nextEvent(app, 'page.lost');
    held[0]!.open();
    await first;
    expect(await lost).toMatchObject({ page: ticket!.page, attempt: 1 });
    held[1]!.open();
    await second;
    expect(outcomes).toEqual(['1 refused: true', 'written by 2']);
    expect((await pages()).find(({ page }) => page === ticket!.page)).toMatchObject({ status: 'done', attempt: 2 });
  });

  it('that is somebody else’s by now is told so through its signal', async () => {
    let told: unknown;
    script.page = (run) => {
      if (run.attempt > 1) return Promise.resolve();
      return new Promise((_resolve, reject) =>
        run.signal.addEventListener('abort', () => reject((told = run.signal.reason))),
      );
    };
    const app = await start();
    await app.get(SchedulerService).runNow('statements', BY);
    const [ticket] = await tickets(2);
    const first = hand.deliver(ticket!);
    await until(async () =>
      expect((await pages()).find(({ page }) => page === ticket!.page)).toMatchObject({
        status: 'running',
        attempt: 1,
      }),
    );
    await hand.deliver(ticket!);
    await first;
    expect(told).toBeInstanceOf(LeaseLostError);
  });

  it('that is frozen inside a receipt holds up nobody: whoever gets it next ends its transaction', async () => {
    const held = latch();
    const inside = latch();
    let ended: unknown;
    script.page = async (run, page, receipts) => {
      const { applied } = await receipts.once(page.id, async (manager) => {
        if (run.attempt > 1) return;
        await manager.query('select 1');
        inside.open();
        await held.opened;
      });
      if (run.attempt > 1) ended = applied;
    };
    const app = await start();
    await app.get(SchedulerService).runNow('statements', BY);
    const [ticket] = await tickets(2);
    const first = hand.deliver(ticket!);
    await inside.opened;
    await hand.deliver(ticket!);
    expect(ended).toBe(true);
    held.open();
    await first;
    expect((await pages()).find(({ page }) => page === ticket!.page)).toMatchObject({ status: 'done', attempt: 2 });
  });

  it('is worth one delivery for each time it is queued: a late repetition does nothing', async () => {
    const attempts: number[] = [];
    script.page = async (run) => {
      attempts.push(run.attempt);
      if (run.attempt === 1) throw new Error('once');
    };
    const app = await start();
    await app.get(SchedulerService).runNow('statements', BY);
    const [ticket] = await tickets(2);
    await hand.deliver(ticket!);
    const again = (await tickets(3))[2]!;
    expect(again).toMatchObject({ page: ticket!.page, ticket: 1 });
    expect(again.id).not.toBe(ticket!.id);
    await hand.deliver(ticket!);
    expect(attempts).toEqual([1]);
    await hand.deliver(again);
    await hand.deliver(again);
    expect(attempts).toEqual([1, 2]);
  });

  it('whose workers die each time is dead when its attempts are used up', async () => {
    const app = await start();
    await app.get(SchedulerService).runNow('statements', BY);
    const [ticket] = await tickets(2);
    await until(async () => expect(await runs()).toMatchObject([{ status: 'fanned_out' }]));
    await database.query(
      `update job_pages set status = 'running', attempt = 2, claimed_by = 'dead', next_attempt_at = null where page = $1`,
      [ticket!.page],
    );
    const dead = nextEvent(app, 'page.dead');
    await hand.deliver(ticket!);
    expect(await dead).toMatchObject({ page: ticket!.page, error: { name: 'WorkerLost' } });
  });

  it('that was written and not handed over, since the queue was down, is handed over later; the tick does not fail for it', async () => {
    hand.broken = true;
    const app = await start();
    const fannedOut = nextEvent(app, 'run.fannedOut');
    await app.get(SchedulerService).runNow('statements', BY);
    await fannedOut;
    hand.broken = false;
    await database.query(`update job_pages set created_at = created_at - interval '1 minute'`);
    expect((await tickets(2)).map(({ page }) => page).sort()).toEqual(['page-0', 'page-1']);
  });

  it('of a stopping instance is handed back, and does not count as an attempt', async () => {
    const begun = latch();
    script.page = async (run) => {
      begun.open();
      await new Promise((_resolve, reject) => run.signal.addEventListener('abort', () => reject(run.signal.reason)));
    };
    const app = await startApp(
      database,
      { imports: [QueueModule], providers: [Statements] },
      { pollInterval: '100ms', shutdownTimeout: 50 },
    );
    await app.get(SchedulerService).runNow('statements', BY);
    const [ticket] = await tickets(2);
    const working = hand.deliver(ticket!);
    await begun.opened;
    await closeApps();
    await working;
    const [row] = await database.query('select status, attempt, releases, ticket from job_pages where page = $1', [
      ticket!.page,
    ]);
    expect(row).toEqual({ status: 'queued', attempt: 1, releases: 1, ticket: 1 });
  });

  it('has its queue started again by the next replica when the one that had it is gone for long', async () => {
    const app = await start();
    await app.get(SchedulerService).runNow('statements', BY);
    const [ticket] = await tickets(2);
    await database.query(
      `update job_pages set status = 'running', attempt = 1, claimed_by = 'gone', started_at = now() - interval '10 minutes', next_attempt_at = null where page = $1`,
      [ticket!.page],
    );
    await closeApps();
    await start();
    expect((await tickets(3)).at(-1)).toMatchObject({ page: ticket!.page, ticket: 1 });
  });
});

describe('an application that is tested', () => {
  it('has its pages worked by the test', async () => {
    let failed = false;
    script.page = async (_run, { id }) => {
      if (id !== 'page-3' || failed) return;
      failed = true;
      throw new Error('once');
    };
    const app = await startApp(database, { imports: [QueueModule], providers: [Statements] }, { enabled: false });
    const end = await runJob(app, 'statements');
    expect(end).toMatchObject({ type: 'run.fannedOut', pages: 25 });
    expect(await runPages(app, end)).toMatchObject({ total: 25, done: 24, failed: 1 });
    await until(async () => expect(await runPages(app, end)).toMatchObject({ done: 25 }));
    expect(await runs()).toMatchObject([{ status: 'done' }]);
  });
});

describe('a handler of pages', () => {
  @Injectable()
  class Misspelt {
    @DistributedCron('0 0 1 1 *', { name: 'invoices' })
    tick() {}

    @DistributedCronPage('invoice', {})
    page() {}
  }

  @Injectable()
  class Twice {
    @DistributedCron('0 0 1 1 *', { name: 'invoices' })
    tick() {}

    @DistributedCronPage('invoices', { concurrency: 0, maxAttempt: 2 } as never)
    one() {}

    @DistributedCronPage('invoices')
    two() {}
  }

  it('of a job that there is not fails the boot, and so do two of one job, and wrong options', async () => {
    await expect(startApp(database, { providers: [Misspelt] })).rejects.toThrow(
      'Misspelt.page: @DistributedCronPage: there is no job "invoice" among those declared with @DistributedCron; did you mean "invoices"?',
    );
    const failed = await startApp(database, { providers: [Twice] }).catch((error: Error) => error.message);
    expect(failed).toContain(
      'The pages of job "invoices" are declared by both Twice.one and Twice.two; a job has one handler for them.',
    );
    expect(failed).toContain('Twice.one: @DistributedCronPage("invoices"): concurrency: expected at least 1');
    expect(failed).toContain('Unknown option "maxAttempt"; did you mean "maxAttempts"?');
  });

  it('without a queue fails the boot, and says what to import', async () => {
    await expect(startApp(database, { providers: [Statements] })).rejects.toThrow(
      /Statements\.page: the pages of job "statements" need a queue: import DistributedCronBullMqModule/,
    );
  });
});
