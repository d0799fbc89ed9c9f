import { Injectable, Module } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Queue } from 'bullmq';
import {
  DistributedCron,
  DistributedCronPage,
  FanOutService,
  PAGE_QUEUE,
  SchedulerEvents,
  SchedulerService,
  type PageQueue,
  type PageTicket,
} from '../../lib/index.js';
import { BullMqPageQueue } from '../../lib/bullmq/index.js';
import { PageQueues } from '../../lib/fan-out/page-queues.js';
import { InMemoryPageQueue } from '../../lib/testing/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { HandQueue } from '../support/hand-queue.js';
import { hasRedisServer, startRedisServer, type RedisServer } from '../support/redis-server.js';
import { until } from '../support/until.js';
import { closeApps, nextEvent, startApp } from './support/apps.js';

let database: TestDatabase;
beforeEach(async () => {
  database = await createTestDatabase();
  await database.query('create table canary (what text)');
});
afterEach(async () => {
  await closeApps();
  await database.drop();
});

let queue: PageQueue;
let worked: string[];
beforeEach(() => void (worked = []));

@Injectable()
class Statements {
  constructor(private readonly fanOut: FanOutService) {}

  @DistributedCron('0 0 1 1 *', { name: 'statements' })
  tick() {
    return this.fanOut.publish([{ id: 'a' }, { id: 'b' }]);
  }

  @DistributedCronPage('statements')
  async page(_run: unknown, { id }: { id: string }) {
    worked.push(id);
  }
}

@Module({ providers: [{ provide: PAGE_QUEUE, useFactory: () => queue }], exports: [PAGE_QUEUE] })
class QueueModule {}

const AT = '2026-03-10T02:15:00.000Z';
const DROP = '0; drop table canary; select 1 as attempt; --';

/** What a ticket would look like as JSON, and what is wrong with it. */
const HOSTILE: [string, unknown][] = [
  ['nothing', null],
  ['a text', DROP],
  ['a number', 7],
  ['a list', []],
  ['an empty object', {}],
  ['a ticket that is SQL', { jobName: 'statements', fireTime: AT, page: 'a', ticket: DROP }],
  ['a ticket that is a condition', { jobName: 'statements', fireTime: AT, page: 'a', ticket: '0 or true' }],
  ['a ticket with a fraction', { jobName: 'statements', fireTime: AT, page: 'a', ticket: 0.5 }],
  ['a negative ticket', { jobName: 'statements', fireTime: AT, page: 'a', ticket: -1 }],
  ['a ticket past what an integer holds', { jobName: 'statements', fireTime: AT, page: 'a', ticket: 2 ** 31 }],
  ['no ticket', { jobName: 'statements', fireTime: AT, page: 'a' }],
  ['a page that is an object', { jobName: 'statements', fireTime: AT, page: { toString: 'a' }, ticket: 0 }],
  ['a page with a NUL', { jobName: 'statements', fireTime: AT, page: 'a\u0000', ticket: 0 }],
  ['a page without end', { jobName: 'statements', fireTime: AT, page: 'x'.repeat(100_000), ticket: 0 }],
  ['a fire time that is SQL', { jobName: 'statements', fireTime: DROP, page: 'a', ticket: 0 }],
  [
    'a fire time that PostgreSQL can’t read',
    { jobName: 'statements', fireTime: '+275760-09-13T00:00:00.000Z', page: 'a', ticket: 0 },
  ],
  ['a fire time that is a number', { jobName: 'statements', fireTime: 0, page: 'a', ticket: 0 }],
  ['another job', { jobName: 'other', fireTime: AT, page: 'a', ticket: 0 }],
  ['a job that is SQL', { jobName: `statements'; drop table canary; --`, fireTime: AT, page: 'a', ticket: 0 }],
];

/** It may be a ticket; of no page that is there. */
const HARMLESS = { jobName: 'statements', fireTime: AT, page: `a' or '1' = '1'; drop table canary; --`, ticket: 0 };

const ticketOf = (payload: unknown): PageTicket => {
  const { fireTime } = Object(payload) as { fireTime?: unknown };
  return (
    typeof fireTime === 'string' ? { ...(payload as object), fireTime: new Date(fireTime) } : payload
  ) as PageTicket;
};

async function start() {
  const app = await startApp(database, { imports: [QueueModule], providers: [Statements] }, { pollInterval: '100ms' });
  const refused: string[] = [];
  app
    .get(SchedulerEvents)
    .of('loop.failed')
    .subscribe(({ loop, error }) => void (loop === 'page queue' && refused.push(error.message)));
  return { app, refused };
}

/** The pages of an occurrence are worked as ever. */
async function expectAsEver(app: Awaited<ReturnType<typeof start>>['app']): Promise<void> {
  const ended = nextEvent(app, 'run.completed');
  await app.get(SchedulerService).runNow('statements', { by: 'test' });
  await ended;
  expect(worked.sort()).toEqual(['a', 'b']);
  expect(await database.query('select what from canary')).toEqual([]);
}

describe('who can write to the page queue', () => {
  it('runs nothing with what is no ticket: it is dropped, and told', async () => {
    const hand = (queue = new HandQueue());
    const { app, refused } = await start();
    await app.get(PageQueues).open();
    await until(() => expect(hand.isWorked).toBe(true));
    for (const [what, payload] of HOSTILE) {
      await hand.deliver(ticketOf(payload));
      expect([what, refused.splice(0)]).toEqual([
        what,
        [
          expect.stringContaining(
            'The page queue of job "statements" has delivered what is no ticket of it, and it was dropped',
          ),
        ],
      ]);
    }
    await hand.deliver(ticketOf(HARMLESS));
    expect(refused).toEqual([]);
    expect(worked).toEqual([]);
    expect(await database.query('select what from canary')).toEqual([]);
  });

  it('keeps nobody from the pages of a queue in memory', async () => {
    const memory = new InMemoryPageQueue();
    queue = memory;
    const { app, refused } = await start();
    for (const [what, payload] of HOSTILE)
      await memory.enqueue('statements', [{ id: what, ...Object(ticketOf(payload)) } as PageTicket]);
    await until(() => expect(refused).toHaveLength(HOSTILE.length));
    await expectAsEver(app);
    expect(refused).toHaveLength(HOSTILE.length);
  });

  const redis: { server?: RedisServer } = {};
  beforeAll(async () => void (hasRedisServer && (redis.server = await startRedisServer())));
  afterAll(() => redis.server?.stop());

  it.each<[string, () => ConstructorParameters<typeof BullMqPageQueue>[0], boolean]>([
    ['PostgreSQL', () => ({}), true],
    ['Redis', () => ({ redis: redis.server!.url }), hasRedisServer],
  ])(
    'keeps nobody from the pages of BullMQ on %s, and nothing of it is delivered again',
    async (_where, options, isThere) => {
      if (!isThere) return;
      const bull = new BullMqPageQueue(options());
      queue = bull;
      const { app, refused } = await start();
      await app.get(PageQueues).open();
      // Whoever can write to the queue, as the queue's own.
      const { queueOf } = bull as unknown as { queueOf(jobName: string): Queue };
      const raw = queueOf.call(bull, 'statements');
      for (const [what, payload] of [...HOSTILE, ['harmless', HARMLESS] as const]) {
        // PostgreSQL keeps no NUL in JSON.
        if (what !== 'a page with a NUL')
          await raw.add(what, payload, {
            attempts: 1_000_000,
            backoff: { type: 'fixed', delay: 10 },
            removeOnComplete: true,
          });
      }
      await until(() => expect(refused).toHaveLength(HOSTILE.length - 1));
      await until(async () =>
        expect(await raw.getJobCounts('waiting', 'active', 'delayed', 'failed')).toEqual({
          waiting: 0,
          active: 0,
          delayed: 0,
          failed: 0,
        }),
      );
      await expectAsEver(app);
      expect(refused).toHaveLength(HOSTILE.length - 1);
    },
  );
});
