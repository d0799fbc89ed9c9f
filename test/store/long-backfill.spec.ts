import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

const BACKFILL = '00000000-0000-0000-0000-000000000001';

let stores: Stores;
beforeAll(async () => {
  stores = await openStores();
  await stores.partitions.ensure([secondsAgo(30_000), secondsAgo(0)]);
  await stores.test.query(
    `insert into job_backfills (id, job_name, range_from, range_to, fed_until, max_concurrent, beside, replay, total)
     values ($1, 'job', now() - interval '1 day', now(), now(), 10, true, false, 20020)`,
    [BACKFILL],
  );
  await stores.test.query('alter table job_runs disable trigger user');
});
afterAll(() => stores.close());

/** So many runs of the backfill have ended, the newest of them so many seconds ago. */
const ended = (runs: number, newest: number) =>
  stores.test.query(
    `insert into job_runs (job_name, fire_time, status, trigger, backfill_id, beside, attempt, claimed_by, started_at, finished_at)
     select 'job', $1::timestamptz - n * interval '1 second', 'done', 'backfill', $2, true, 1, 'A', now(), now() from generate_series(1, $3::integer) n`,
    [secondsAgo(newest), BACKFILL, runs],
  );

/** How many blocks a look at what waits has read. */
async function blocksOfALook(): Promise<{ blocks: number; found: number }> {
  const jobs = [{ name: 'job', overlap: 'forbid', parallel: 1, nextDueAt: secondsAgo(-3_600) }];
  const [row] = await stores.test.query<{ 'QUERY PLAN': [{ Plan: Record<string, number> }] }>(
    `explain (analyze, buffers, format json) select * from job_run_waiting_1('${JSON.stringify(jobs)}', 100, '${secondsAgo(-3_600).toISOString()}')`,
  );
  const plan = row!['QUERY PLAN'][0].Plan;
  return { blocks: plan['Shared Hit Blocks']! + plan['Shared Read Blocks']!, found: plan['Actual Rows']! };
}

it('a look at what waits of a backfill reads no more of it the longer it has gone on', async () => {
  await stores.test.query(
    `insert into job_runs (job_name, fire_time, status, trigger, backfill_id, beside, next_attempt_at)
     select 'job', $1::timestamptz + n * interval '1 second', 'queued', 'backfill', $2, true, now() from generate_series(1, 20) n`,
    [secondsAgo(1_000), BACKFILL],
  );
  await ended(1_000, 1_000);
  await blocksOfALook();
  const before = await blocksOfALook();
  await ended(19_000, 2_000);
  const after = await blocksOfALook();
  expect(after.found).toBe(before.found);
  expect(before.found).toBeGreaterThan(0);
  expect(after.blocks).toBeLessThan(before.blocks * 2);
});
