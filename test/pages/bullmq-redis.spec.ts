import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { BullMqPageQueue } from '../../lib/bullmq/index.js';
import { pageTicket } from '../../lib/fan-out/page.js';
import { pageQueueConformance } from '../../lib/testing/index.js';
import { pageQueueContext } from '../support/page-queue-context.js';
import { hasRedisServer, startRedisServer, type RedisServer } from '../support/redis-server.js';

let redis: RedisServer;

async function create() {
  const queue = new BullMqPageQueue({ redis: redis.url, redeliverAfter: '1s' });
  await queue.open(pageQueueContext('unused'));
  return queue;
}

(hasRedisServer ? describe : describe.skip)('BullMQ on Redis', () => {
  beforeAll(async () => {
    redis = await startRedisServer();
  });
  afterAll(() => redis?.stop());

  it.each(pageQueueConformance({ create }))('$name', ({ check }) => check());
});

(hasRedisServer ? describe : describe.skip)('a Redis that is gone', () => {
  it('fails what is enqueued after a moment, so that the tick goes on', async () => {
    const server = await startRedisServer();
    const queue = new BullMqPageQueue({ redis: server.url });
    await queue.open(pageQueueContext('unused'));
    const [ticket] = [pageTicket({ jobName: 'job', fireTime: new Date('2026-03-10T02:15:00Z'), page: 'a' }, 0)];
    try {
      await queue.enqueue('job', [ticket!]);
    } finally {
      await server.stop();
    }
    await expect(queue.enqueue('job', [ticket!])).rejects.toThrow();
    await queue.close();
  });
});
