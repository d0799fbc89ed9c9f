import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { pageTicket } from '../../lib/fan-out/page.js';
import { BullMqPageQueue } from '../../lib/bullmq/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { pageQueueContext } from '../support/page-queue-context.js';

const PAGE = pageTicket({ jobName: 'statements', fireTime: new Date('2026-03-01T02:00:00Z'), page: '1' }, 1);

/** More than are told in the seconds of a test when there are pauses between them. */
const FLOOD = 100;

let database: TestDatabase;
const queues: BullMqPageQueue[] = [];
beforeEach(async () => {
  database = await createTestDatabase();
});
afterEach(async () => {
  await Promise.all(queues.splice(0).map((queue) => queue.close()));
  await database.drop();
});

it('a worker whose tables are not there yet leaves the process its turns, and works when they are', async () => {
  const failures: unknown[] = [];
  const queue = new BullMqPageQueue({ migrate: false });
  queues.push(queue);
  const failed = (error: unknown) => {
    failures.push(error);
    if (failures.length === FLOOD) void queue.close();
  };
  await queue.open({ ...pageQueueContext(database.url), failed });
  const delivered = new Promise((resolve) =>
    queue.work('statements', async (ticket) => resolve(ticket), { concurrency: 1 }),
  );
  await expect(queue.enqueue('statements', [PAGE])).rejects.toThrow('not initialized');
  while (failures.length < 3) await sleep(20);
  expect(failures.length).toBeLessThan(FLOOD);

  const other = new BullMqPageQueue({ migrate: true });
  queues.push(other);
  await other.open(pageQueueContext(database.url));
  await other.enqueue('other', [{ ...PAGE, jobName: 'other' }]);
  await queue.enqueue('statements', [PAGE]);
  expect(await delivered).toEqual(PAGE);
});
