import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import pg from 'pg';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';
import { until } from '../support/until.js';

const RUNS = 100;

let stores: Stores;
beforeAll(async () => {
  stores = await openStores();
  await stores.partitions.ensure([secondsAgo(RUNS), secondsAgo(0)]);
});
afterAll(() => stores.close());

/** Runs that wait, each with as much data as a run may have, and with a checkpoint that compresses well. */
async function wait(): Promise<object[]> {
  await stores.test.query('delete from job_runs');
  await stores.test.query(
    `insert into job_runs (job_name, fire_time, status, trigger, next_attempt_at, data, checkpoint)
     select 'job', $1::timestamptz + n * interval '1 second', 'queued', 'catch-up', now(), $2, to_jsonb(repeat('x', 90000)) from generate_series(1, $3::integer) n`,
    [secondsAgo(RUNS), JSON.stringify(randomBytes(49_000).toString('hex')), RUNS],
  );
  return Array.from({ length: RUNS }, (_, index) => ({
    jobName: 'job',
    fireTime: new Date(secondsAgo(RUNS).getTime() + (index + 1) * 1_000),
    attempt: 0,
    overlap: 'allow',
    parallel: null,
    leaseMs: 60_000,
  }));
}

it('a process that stands still before it has read what it started holds no lock of the job', async () => {
  const waiting = await wait();
  const client = new pg.Client({ connectionString: stores.test.url });
  client.on('error', () => undefined);
  await client.connect();
  const started = client.query('select * from job_run_start_1($1, $2, 1)', [JSON.stringify(waiting), 'A']);
  const { stream } = (client as unknown as { connection: { stream: NodeJS.ReadableStream } }).connection;
  stream.pause();
  try {
    await until(async () => {
      const [row] = await stores.test.query(
        `select count(*)::integer as started, (select count(*)::integer from pg_locks where locktype = 'advisory' and objsubid = 1) as locks
         from   job_runs where status = 'running'`,
      );
      expect(row).toEqual({ started: RUNS, locks: 0 });
    });
  } finally {
    stream.resume();
    expect((await started).rowCount).toBe(RUNS);
    await client.end();
  }
});

it('what was left out of the answer is there when the handler begins', async () => {
  const waiting = await wait();
  const { answers } = await stores.runs.claimWaiting(waiting as never, 'A');
  expect(answers).toHaveLength(RUNS);
  for (const run of answers) expect(run.data).toHaveLength(98_000);
});
