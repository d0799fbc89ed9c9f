import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { BullMqPageQueue } from '../../lib/bullmq/index.js';
import { pageTicket } from '../../lib/fan-out/page.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { pageQueueContext } from '../support/page-queue-context.js';
import { until } from '../support/until.js';

let database: TestDatabase;
const queues: BullMqPageQueue[] = [];
beforeAll(async () => {
  database = await createTestDatabase();
});
afterEach(async () => {
  await Promise.all(queues.splice(0).map((queue) => queue.close()));
});
afterAll(() => database.drop());

async function open(failures: unknown[] = []): Promise<BullMqPageQueue> {
  const queue = new BullMqPageQueue({ redeliverAfter: '1s' });
  await queue.open(pageQueueContext(database.url, failures));
  queues.push(queue);
  return queue;
}

const ticket = (page: string) => pageTicket({ jobName: 'job', fireTime: new Date(0), page }, 0);

describe('BullMQ on PostgreSQL', () => {
  it('whose server goes away while it is being connected does not take the process along, and works when it is back', async () => {
    await (await open()).enqueue('job', [ticket('made before')]);
    const holder = new pg.Client({ connectionString: database.url });
    await holder.connect();
    await holder.query('begin; lock table bullmq.migration in access exclusive mode');

    const queue = await open();
    const seen: string[] = [];
    const refused = queue.enqueue('job', [ticket('refused')]).then(
      () => 'taken',
      () => 'refused',
    );
    const worker = queue.work('job', async ({ page }) => void seen.push(page), { concurrency: 1 });
    const waiting = `from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    await until(async () => expect(await database.query(`select ${waiting}`)).toHaveLength(2));
    await database.query(`select pg_terminate_backend(pid) ${waiting}`);
    expect(await refused).toBe('refused');
    await holder.end();

    await until(() => queue.enqueue('job', [ticket('made after')]));
    await until(() => expect(seen.sort()).toEqual(['made after', 'made before']));
    await worker.stop();
  });
});
