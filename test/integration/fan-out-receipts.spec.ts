import { Injectable, Module } from '@nestjs/common';
import type { TestingModule } from '@nestjs/testing';
import { DataSource, type EntityManager } from 'typeorm';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import {
  CronRun,
  DistributedCron,
  DistributedCronPage,
  FanOutService,
  LeaseLostError,
  PAGE_QUEUE,
  ReceiptService,
  SchedulerService,
  type Page,
  type PageQueue,
  type SchedulerError,
} from '../../lib/index.js';
import { CutOffCalls } from '../../lib/maintenance/pruning.service.js';
import { PageKeepingStore } from '../../lib/fan-out/page-keeper.service.js';
import { InMemoryPageQueue } from '../../lib/testing/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { HandQueue } from '../support/hand-queue.js';
import { latch } from '../support/latch.js';
import { until } from '../support/until.js';
import { closeApps, nextEvent, startApp } from './support/apps.js';

interface Here {
  readonly run: CronRun;
  readonly page: Page<number[]>;
  readonly receipts: ReceiptService;
  readonly fanOut: FanOutService;
}

let database: TestDatabase;
let mine: DataSource;
let queue: PageQueue;
let ids: string[];
let tick: (run: CronRun, fanOut: FanOutService) => Promise<unknown>;
let work: (here: Here) => Promise<unknown>;

beforeAll(async () => {
  database = await createTestDatabase();
  await database.query('create table effects (what text, attempt integer)');
  mine = await new DataSource({
    type: 'postgres',
    url: database.url,
    poolSize: 4,
    poolErrorHandler: () => {},
  }).initialize();
});
afterEach(closeApps);
afterAll(async () => {
  await mine.destroy();
  await database.drop();
});
beforeEach(async () => {
  await database.query(
    'drop table if exists job_pages, receipts, job_runs, job_schedule, job_instances, job_backfills, job_actions, job_flags, job_alerts, distributed_cron_migrations cascade',
  );
  await database.query('truncate effects');
  queue = new InMemoryPageQueue();
  ids = ['a', 'b'];
  tick = (_run, fanOut) =>
    fanOut.publish(ids.map((id, index) => ({ id, data: Array.from({ length: 20 }, (_, at) => index * 20 + at) })));
  work = async () => undefined;
});

@Injectable()
class Statements {
  constructor(
    private readonly fanOut: FanOutService,
    private readonly receipts: ReceiptService,
  ) {}

  @DistributedCron('0 0 1 1 *', { name: 'statements', maxAttempts: 2, backoff: 10 })
  tick(run: CronRun) {
    return tick(run, this.fanOut);
  }

  @DistributedCronPage('statements', { concurrency: 4, maxAttempts: 2, backoff: 10 })
  page(run: CronRun, page: Page<number[]>) {
    return work({ run, page, receipts: this.receipts, fanOut: this.fanOut });
  }
}

@Module({ providers: [{ provide: PAGE_QUEUE, useFactory: () => queue }], exports: [PAGE_QUEUE] })
class QueueModule {}

async function start(): Promise<{
  app: TestingModule;
  scheduler: SchedulerService;
  runNow: (data?: unknown) => Promise<Date>;
}> {
  const app = await startApp(database, { imports: [QueueModule], providers: [Statements] }, { pollInterval: '100ms' });
  const scheduler = app.get(SchedulerService);
  return {
    app,
    scheduler,
    runNow: async (data) => (await scheduler.runNow('statements', { by: 'test' }, { data })).fireTime,
  };
}

const write =
  (what: unknown, { attempt }: CronRun) =>
  (manager: EntityManager) =>
    manager.query('insert into effects values ($1, $2)', [String(what), attempt]);
const written = async () =>
  (await database.query<{ what: string }>('select what from effects order by what')).map(({ what }) => what);
const pages = () =>
  database.query<{ page: string; status: string; attempt: number }>(
    'select page, status, attempt from job_pages order by page',
  );
const states = () => database.query('select entity, effect, state, attempt from receipts order by entity, effect');
const runStatus = async () => (await database.query<{ status: string }>('select status from job_runs'))[0]?.status;

/** Starts the occurrence with a queue that delivers when it is told to. @returns a delivery of page a */
async function byHand() {
  const hand = new HandQueue();
  queue = hand;
  ids = ['a'];
  const started = await start();
  const fireTime = await started.runNow();
  await until(async () => expect([hand.tickets.length, await runStatus()]).toEqual([1, 'fanned_out']));
  return { ...started, fireTime, hand, deliver: (index = 0) => hand.deliver(hand.tickets[index]!) };
}

describe('in a page', () => {
  it.each<[string, (here: Here) => Promise<unknown>]>([
    [
      'onceEach, several transactions at a time',
      ({ run, page, receipts }) =>
        receipts.onceEach(page.data, (item, manager) => write(item, run)(manager), { batch: 3, concurrency: 3 }),
    ],
    [
      'onceBatch, on the application’s data source',
      ({ run, page, receipts }) =>
        receipts.onceBatch(
          page.data,
          async (items, manager) => {
            await manager.query('insert into effects select unnest($1::text[]), $2', [items.map(String), run.attempt]);
          },
          { batch: 7, in: mine },
        ),
    ],
    [
      'once, in the application’s transaction',
      ({ run, page, receipts }) =>
        mine.transaction(async (manager) => {
          for (const item of page.data) await receipts.once(item, write(item, run), { in: manager });
        }),
    ],
    [
      'once, in the application’s serializable transaction',
      async ({ run, page, receipts }) => {
        for (const item of page.data)
          await mine
            .transaction('SERIALIZABLE', (manager) => receipts.once(item, write(item, run), { in: manager }))
            .catch((error: Error) => Promise.reject(error));
      },
    ],
    [
      'once for what is pending',
      async ({ run, page, receipts }) => {
        for await (const item of receipts.pending(page.data)) await receipts.once(item, write(item, run), { in: mine });
      },
    ],
  ])('%s: what a failed attempt has done is done once', async (_how, effects) => {
    work = async (here) => {
      if (here.run.attempt === 1) {
        await effects({ ...here, page: { ...here.page, data: here.page.data.slice(0, 8) } });
        throw new Error('after eight');
      }
      await effects(here);
    };
    const { app, runNow } = await start();
    const ended = nextEvent(app, 'run.completed');
    await runNow();
    await ended;
    expect((await written()).map(Number).sort((a, b) => a - b)).toEqual(Array.from({ length: 40 }, (_, item) => item));
    expect(
      await database.query('select attempt, count(*)::integer from effects group by attempt order by attempt'),
    ).toEqual([
      { attempt: 1, count: 16 },
      { attempt: 2, count: 24 },
    ]);
    expect(await pages()).toMatchObject([
      { status: 'done', attempt: 2 },
      { status: 'done', attempt: 2 },
    ]);
  });

  it.each<[string, (here: Here, hold: () => Promise<void>) => Promise<unknown>]>([
    [
      'onceEach',
      ({ run, receipts }, hold) =>
        receipts.onceEach(['x', 'y'], async (item, manager) => (await write(item, run)(manager), await hold())),
    ],
    [
      'once on the application’s data source',
      ({ run, receipts }, hold) =>
        receipts.once('x', async (manager) => (await write('x', run)(manager), await hold()), { in: mine }),
    ],
    [
      'once in the application’s transaction',
      ({ run, receipts }, hold) =>
        mine.transaction(async (manager) => (await receipts.once('x', write('x', run), { in: manager }), await hold())),
    ],
    [
      'once in the application’s serializable transaction',
      ({ run, receipts }, hold) =>
        mine.transaction(
          'SERIALIZABLE',
          async (manager) =>
            await receipts.once('x', async (own) => (await write('x', run)(own), await hold()), { in: manager }),
        ),
    ],
    [
      'once after the page is another’s',
      async ({ run, receipts }, hold) => (
        await hold(), await mine.transaction((manager) => receipts.once('x', write('x', run), { in: manager }))
      ),
    ],
    [
      'onceEach after the page is another’s',
      async ({ run, receipts }, hold) => (
        await hold(), await receipts.onceEach(['x'], (item, manager) => write(item, run)(manager))
      ),
    ],
  ])('%s, frozen until another worker has the page, changes nothing', async (how, effects) => {
    const [inside, held] = [latch(), latch()];
    const failures: unknown[] = [];
    const entities = how === 'onceEach' ? ['x', 'y'] : ['x'];
    work = async (here) => {
      if (here.run.attempt > 1)
        return here.receipts.onceEach(entities, (item, manager) => write(item, here.run)(manager));
      return effects(here, () => (inside.open(), held.opened)).catch(
        (error: unknown) => (failures.push(error), Promise.reject(error)),
      );
    };
    const { app, deliver } = await byHand();
    const first = deliver();
    await inside.opened;
    const lost = nextEvent(app, 'page.lost');
    await deliver();
    held.open();
    await first;
    expect(await lost).toMatchObject({ page: 'a', attempt: 1 });
    expect(failures).toHaveLength(1);
    expect(await database.query('select what, attempt from effects order by what')).toEqual(
      entities.map((what) => ({ what, attempt: 2 })),
    );
    expect(await pages()).toEqual([{ page: 'a', status: 'done', attempt: 2 }]);
    expect(await runStatus()).toBe('done');
  });

  it('onceExternal makes each call under one key, skips what was answered and parks what was cut off', async () => {
    const calls: { entity: number; key: string }[] = [];
    work = async ({ run, page, receipts }) => {
      for (const entity of page.data.slice(0, 3)) {
        const call = async (key: string) => {
          calls.push({ entity, key });
          if (run.attempt === 1 && entity % 20 === 1) throw new Error('cut off');
          return { entity };
        };
        await receipts.onceExternal(entity, call, { inDoubt: page.id === 'a' ? 'park' : 'resend' });
      }
    };
    const { app, runNow, scheduler } = await start();
    const ended = nextEvent(app, 'run.completed');
    const fireTime = await runNow();
    await ended;
    expect(calls.map(({ entity }) => entity).sort((a, b) => a - b)).toEqual([0, 1, 2, 20, 21, 21, 22]);
    expect(new Set(calls.map(({ entity, key }) => `${entity} ${key}`)).size).toBe(6);
    expect(new Set(calls.map(({ key }) => key)).size).toBe(6);
    expect(await scheduler.inDoubt({ jobName: 'statements', fireTime })).toMatchObject([
      { entity: '1', why: 'call failed', runStatus: 'done' },
    ]);
  });

  it('a call that is under way is in doubt for nobody', async () => {
    const [begun, answered] = [latch(), latch()];
    work = ({ receipts }) => receipts.onceExternal('x', () => (begun.open(), answered.opened), { inDoubt: 'park' });
    const { app, deliver, scheduler, fireTime } = await byHand();
    const working = deliver();
    await begun.opened;
    expect(await runStatus()).toBe('fanned_out');
    expect(await scheduler.inDoubt({ fireTime })).toEqual([]);
    expect(
      (await scheduler.resolveInDoubt({ fireTime }, 'undone', { by: 'test', reason: 'too early' })).effects,
    ).toEqual([]);
    expect((await scheduler.explain('statements', fireTime)).text).not.toContain('doubt');
    await app.get(CutOffCalls).look();
    answered.open();
    await working;
    expect(await states()).toMatchObject([{ entity: 'x', state: 'done' }]);
  });

  it('a call that is under way when its tick has died for good is in doubt for nobody, either', async () => {
    const [begun, answered, failing] = [latch(), latch(), latch()];
    work = ({ receipts }) => receipts.onceExternal('x', () => (begun.open(), answered.opened), { inDoubt: 'park' });
    const publish = tick;
    tick = async (run, fanOut) => {
      await publish(run, fanOut);
      await failing.opened;
      throw new Error('the tick');
    };
    const hand = new HandQueue();
    queue = hand;
    ids = ['a'];
    const { app, runNow, scheduler } = await start();
    const fireTime = await runNow();
    await until(() => expect(hand.tickets).toHaveLength(1));
    const working = hand.deliver(hand.tickets[0]!);
    await begun.opened;
    failing.open();
    await until(async () => expect(await runStatus()).toBe('dead'));
    await app.get(CutOffCalls).look();
    expect(await scheduler.inDoubt({ fireTime })).toEqual([]);
    answered.open();
    await working;
    expect(await states()).toMatchObject([{ entity: 'x', state: 'done' }]);
    expect(await pages()).toMatchObject([{ page: 'a', status: 'done' }]);
  });

  it('a call that the last attempt of a dead page has left open is parked when the occurrence has ended', async () => {
    ids = ['a'];
    work = ({ receipts }) =>
      receipts.onceExternal('x', () => Promise.reject(new Error('cut off')), { inDoubt: 'resend' });
    const { app, runNow, scheduler } = await start();
    const dead = nextEvent(app, 'run.dead');
    const fireTime = await runNow();
    expect(await dead).toMatchObject({ attempt: 1 });
    expect(await pages()).toEqual([{ page: 'a', status: 'dead', attempt: 2 }]);
    await until(async () => expect(await states()).toMatchObject([{ entity: 'x', state: 'in_doubt', attempt: 2 }]));
    expect(await scheduler.inDoubt({ fireTime })).toMatchObject([{ entity: 'x', attempt: 2, runStatus: 'dead' }]);
  });

  it('whose call a person has decided about meanwhile is tried again, and not left in nobody’s hands', async () => {
    const [begun, answered] = [latch(), latch()];
    let calls = 0;
    work = ({ receipts }) =>
      receipts.onceExternal('x', async () => void ((calls += 1), begun.open(), await answered.opened), {
        inDoubt: 'park',
      });
    const { deliver, hand } = await byHand();
    const working = deliver();
    await begun.opened;
    await database.query(`update receipts set state = 'done', resolved_by = 'anna', resolved_reason = 'in a hurry'`);
    answered.open();
    await working;
    await until(() => expect(hand.tickets).toHaveLength(2));
    await deliver(1);
    expect(await pages()).toEqual([{ page: 'a', status: 'done', attempt: 2 }]);
    expect([await runStatus(), calls]).toEqual(['done', 1]);
  });

  it('code that has lost its context writes for the page whose run it is given, not for the tick', async () => {
    const [given, tickMayEnd, done] = [latch(), latch(), latch()];
    let of: CronRun | undefined;
    let receipts: ReceiptService | undefined;
    work = async (here) => {
      [of, receipts] = [here.run, here.receipts];
      given.open();
      await done.opened;
    };
    const publish = tick;
    tick = async (run, fanOut) => {
      await publish(run, fanOut);
      await tickMayEnd.opened;
    };
    const hand = new HandQueue();
    queue = hand;
    ids = ['a'];
    const { runNow } = await start();
    await runNow();
    await until(() => expect(hand.tickets).toHaveLength(1));
    const working = hand.deliver(hand.tickets[0]!);
    await given.opened;
    // Both are at their first attempt. Of the two only the page is taken over.
    await database.query(`update job_pages set attempt = 5`);
    await expect(receipts!.once('x', write('x', of!), { run: of! })).rejects.toBeInstanceOf(LeaseLostError);
    tickMayEnd.open();
    done.open();
    await working;
    expect(await written()).toEqual([]);
  });

  it('code that has lost its context may write for a page also when the tick has ended', async () => {
    const [given, done] = [latch(), latch()];
    let here: Here | undefined;
    work = async (one) => {
      here = one;
      given.open();
      await done.opened;
    };
    const { deliver } = await byHand();
    const working = deliver();
    await given.opened;
    expect(await here!.receipts.once('x', write('x', here!.run), { run: here!.run })).toMatchObject({ applied: true });
    expect(
      await here!.receipts.onceEach(['y'], (item, manager) => write(item, here!.run)(manager), { run: here!.run }),
    ).toMatchObject({ applied: 1 });
    done.open();
    await working;
    expect(await written()).toEqual(['x', 'y']);
  });

  it('the run has what the occurrence was given', async () => {
    const seen: unknown[] = [];
    work = async ({ run }) => void seen.push(run.data);
    const { app, runNow } = await start();
    const ended = nextEvent(app, 'run.completed');
    await runNow({ month: 3 });
    await ended;
    expect(seen).toEqual([{ month: 3 }, { month: 3 }]);
  });

  it('what is not a page’s is refused, and leaves nothing behind', async () => {
    const problems: unknown[] = [];
    const refused = async (attempt: () => unknown) =>
      problems.push(
        await (async () => attempt())().then(
          () => 'nothing',
          (error: SchedulerError) => error.code,
        ),
      );
    work = async ({ run, receipts, fanOut }) => {
      await refused(() => fanOut.publish([1]));
      await refused(() => run.checkpoint.save(1));
      await refused(() => run.transaction(async () => 1));
      await refused(() => run.complete());
      await refused(() => run.release());
      await refused(() => receipts.once('outer', () => receipts.onceExternal('inner', () => 1, { inDoubt: 'park' })));
      await refused(() => receipts.once('outer', () => receipts.onceEach(['inner'], () => 1)));
      await refused(() =>
        receipts
          .onceEach(['outer'], (_item, manager) => receipts.once('outer', () => 1, { in: manager }), {
            failures: 'return',
          })
          .then(({ failed }) => Promise.reject(failed[0]!.error)),
      );
      await receipts.onceEach(
        ['outer'],
        async (_item, manager) => void (await receipts.once('inner', write('inner', run), { in: manager })),
      );
    };
    ids = ['a'];
    const { app, runNow } = await start();
    const ended = nextEvent(app, 'run.completed');
    await runNow();
    await ended;
    expect(problems).toEqual([
      'invalid-pages',
      'outside-run',
      'outside-run',
      'outside-run',
      'outside-run',
      'nested-transaction',
      'nested-transaction',
      'nested-transaction',
    ]);
    expect(await states()).toMatchObject([
      { entity: 'inner', state: 'done' },
      { entity: 'outer', state: 'done' },
    ]);
    expect(await written()).toEqual(['inner']);
  });
});

describe('pages of a run that is cancelled before its tick has ended', () => {
  it('do not wait for ever', async () => {
    const hand = new HandQueue();
    queue = hand;
    const publish = tick;
    tick = async (run, fanOut) => {
      await publish(run, fanOut);
      await new Promise((resolve) => run.signal.addEventListener('abort', resolve));
    };
    const { app, runNow, scheduler } = await start();
    const fireTime = await runNow();
    await until(() => expect(hand.tickets).toHaveLength(2));
    await scheduler.cancel('statements', fireTime, { by: 'test', reason: 'wrong month' });
    await until(async () => expect(await runStatus()).toBe('cancelled'));
    const keeping = app.get(PageKeepingStore);
    await keeping.recover(await keeping.open(['statements']), { goneForMs: 60_000, stillForMs: 60_000 });
    expect(await pages()).toMatchObject([{ status: 'cancelled' }, { status: 'cancelled' }]);
    await scheduler.replay('statements', fireTime, { by: 'test' });
    tick = publish;
    await until(() => expect(hand.tickets.length).toBeGreaterThanOrEqual(4));
    for (const ticket of hand.tickets) await hand.deliver(ticket);
    await until(async () =>
      expect([await runStatus(), ...(await pages()).map(({ status }) => status)]).toEqual(['done', 'done', 'done']),
    );
  });
});

describe('a backfill that replays', () => {
  it.each(['dead', 'cancelled'])('an occurrence whose pages are %s has them worked again', async (end) => {
    let broken = true;
    const worked: string[] = [];
    work = async ({ page, run }) => {
      if (page.id === 'b' && broken) {
        if (end === 'dead') throw new Error('no such customer');
        return new Promise((resolve) => run.signal.addEventListener('abort', resolve));
      }
      worked.push(page.id);
    };
    const { app, scheduler } = await start();
    const at = new Date(Date.UTC(2026, 0, 1));
    const first = nextEvent(app, 'backfill.finished');
    await scheduler.backfill('statements', at, at, { by: 'test' });
    await until(async () =>
      expect(await pages()).toMatchObject([
        { page: 'a', status: 'done' },
        { page: 'b', status: end === 'dead' ? 'dead' : 'running' },
      ]),
    );
    await until(async () => expect(await runStatus()).toBe(end === 'dead' ? 'dead' : 'fanned_out'));
    if (end === 'cancelled') await scheduler.cancel('statements', at, { by: 'test' });
    await until(async () => expect(await runStatus()).toBe(end));
    await first;
    broken = false;
    const ended = nextEvent(app, 'backfill.finished');
    await scheduler.backfill('statements', at, at, { by: 'test', replay: true });
    expect(await ended).toMatchObject({ done: 1, dead: 0 });
    expect(await pages()).toMatchObject([
      { page: 'a', status: 'done' },
      { page: 'b', status: 'done' },
    ]);
    // At least once: the keeper and the tick may both hand a page over.
    expect([await runStatus(), ...new Set(worked)]).toEqual(['done', 'a', 'b']);
  });
});
