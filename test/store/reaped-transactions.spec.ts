import { afterAll, beforeAll, expect, it } from '@jest/globals';
import pg from 'pg';
import { aDue } from '../support/due.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

const RUNS = 24;
const KNOWN = { maxAttempts: 3, overlap: 'allow' as const };

let stores: Stores;
const clients: pg.Client[] = [];
beforeAll(async () => {
  stores = await openStores();
});
afterAll(async () => {
  await Promise.all(clients.map((client) => client.end().catch(() => undefined)));
  await stores.close();
});

/** A process that was frozen in the middle of a receipt. */
async function frozenInside(jobName: string, attempt = 1): Promise<void> {
  const client = new pg.Client({ connectionString: stores.test.url });
  client.on('error', () => undefined);
  clients.push(client);
  await client.connect();
  await client.query('begin');
  const { rows } = await client.query('select receipt_may_begin_1($1, $2, $3, $4, null) as ours', [
    jobName,
    secondsAgo(60),
    attempt,
    'A',
  ]);
  expect(rows).toEqual([{ ours: true }]);
}

const transactions = async () =>
  (
    await stores.test.query<{ open: number }>(
      `select count(*)::integer as open from pg_stat_activity where datname = current_database() and state = 'idle in transaction'`,
    )
  )[0]!.open;

it('of attempts whose leases end one after the other, each that was reaped has its transaction ended, whenever its lease ended', async () => {
  const names = Array.from({ length: RUNS }, (_, index) => `job-${index}`);
  await stores.claims.claimDue(
    names.map((name) => aDue(name, secondsAgo(60), { overlap: 'allow' })),
    'A',
  );
  for (const name of names) await frozenInside(name);
  expect(await transactions()).toBe(RUNS);
  // Some end in the middle of a pass.
  await stores.test.query(
    `update job_runs set lease_until = clock_timestamp() + interval '200 milliseconds' + random() * interval '400 milliseconds'`,
  );
  const known = names.map((name) => ({ ...KNOWN, name }));
  for (let reaped = 0; reaped < RUNS; ) reaped += (await stores.reaper.reap(known, 100)).length;
  for (let tries = 0; tries < 100 && (await transactions()) > 0; tries++)
    await stores.test.query('select pg_sleep(0.02)');
  expect(await transactions()).toBe(0);
});

it('of jobs that nobody knows, too, and of no other attempt', async () => {
  await stores.test.query('delete from job_runs');
  await stores.claims.claimDue(
    ['unknown', 'alive'].map((name) => aDue(name, secondsAgo(60))),
    'A',
  );
  await frozenInside('unknown');
  await frozenInside('alive');
  await stores.test.query(`update job_runs set lease_until = clock_timestamp() where job_name = 'unknown'`);
  expect(await stores.reaper.orphanRunsOf(['unknown'])).toMatchObject([{ jobName: 'unknown', status: 'orphaned' }]);
  for (let tries = 0; tries < 100 && (await transactions()) > 1; tries++)
    await stores.test.query('select pg_sleep(0.02)');
  expect(await transactions()).toBe(1);
});

it('of a job that has no row and that nobody names, too, also while its row is held', async () => {
  await stores.test.query('delete from job_runs');
  await stores.claims.claimDue([aDue('stray', secondsAgo(60))], 'A');
  await stores.test.query('delete from job_schedule');
  const before = await transactions();
  await frozenInside('stray');
  // The receipt is about to be committed.
  await clients.at(-1)!.query('select receipt_may_end_1($1, $2, 1, $3, null)', ['stray', secondsAgo(60), 'A']);
  await stores.test.query(`update job_runs set lease_until = clock_timestamp() - interval '2 minutes'`);
  expect(await stores.reaper.orphanRunsOf([])).toEqual([]);
  for (let tries = 0; tries < 100 && (await transactions()) > before; tries++)
    await stores.test.query('select pg_sleep(0.02)');
  expect(await transactions()).toBe(before);
  expect(await stores.reaper.orphanRunsOf([])).toMatchObject([{ jobName: 'stray', status: 'orphaned' }]);
});
