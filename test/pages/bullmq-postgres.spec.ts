import { afterAll, beforeAll, describe, it } from '@jest/globals';
import { BullMqPageQueue } from '../../lib/bullmq/index.js';
import { pageQueueConformance } from '../../lib/testing/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { pageQueueContext } from '../support/page-queue-context.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

async function create() {
  const queue = new BullMqPageQueue({ redeliverAfter: '1s' });
  await queue.open(pageQueueContext(database.url));
  return queue;
}

describe('BullMQ on PostgreSQL', () => {
  it.each(pageQueueConformance({ create }))('$name', ({ check }) => check());
});
