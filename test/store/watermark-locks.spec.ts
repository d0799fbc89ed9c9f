import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { inTransaction } from '../../lib/database/transactions.js';
import { blocked } from '../support/gate.js';
import { aJob } from '../support/job.js';
import { openStores, type Stores } from '../support/stores.js';

let stores: Stores;
beforeAll(async () => {
  stores = await openStores();
});
afterAll(() => stores.close());

it('watermarks of a hundred jobs and of two are remembered in one order: nobody waits for the other crosswise', async () => {
  const jobs = Array.from({ length: 3_000 }, (_, index) => aJob(`job-${1_000 + index}`, '0 3 * * *'));
  // In the table they stand in the opposite order of their names.
  await stores.test.query(
    `insert into job_schedule (name, cron, time_zone, policies) select name, '0 3 * * *', 'UTC', '{}' from unnest($1::text[]) as job (name) order by name desc`,
    [jobs.map(({ name }) => name)],
  );
  await stores.test.query('analyze job_schedule');
  await stores.schedules.declare([], null);
  const decidedUntil = Date.now() + 10_000;
  const remember = (some: typeof jobs) => stores.schedules.remember(some.map((job) => ({ job, decidedUntil })));
  let waiting: Promise<unknown> = Promise.resolve();
  await inTransaction(stores.database.coordination, async (query) => {
    await query(`select from job_schedule where name = 'job-1250' for update`);
    const many = remember(jobs.filter((_, index) => index % 25 === 0 || index === 250));
    await blocked(stores.test, 1);
    const few = remember([jobs[0]!, jobs[2_975]!]);
    await blocked(stores.test, 2);
    waiting = Promise.all([many, few]);
    waiting.catch(() => undefined);
  });
  await expect(waiting).resolves.toBeDefined();
});
