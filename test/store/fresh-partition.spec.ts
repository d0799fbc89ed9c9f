import { afterAll, beforeAll, expect, it } from '@jest/globals';
import pg from 'pg';
import { DONE } from '../../lib/runs/outcome.js';
import { eventually } from '../cluster/harness/eventually.js';
import { aDue } from '../support/due.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

const JOBS = 100;
/** Of a tenth of them all are read sooner than a hundred are looked up, analyzed or not. */
const RUNS_EACH = 1_000;
const names = Array.from({ length: JOBS }, (_, index) => `job-${String(index).padStart(3, '0')}`);

let stores: Stores;
beforeAll(async () => {
  stores = await openStores();
  await stores.partitions.ensure([secondsAgo(3_600), secondsAgo(0)]);
  // A month that has just begun: nobody has looked what is in it, and nobody will.
  for (const { name } of await stores.test.query<{ name: string }>(
    `select relid::regclass::text as name from pg_partition_tree('job_runs') where isleaf`,
  )) {
    await stores.test.query(`alter table ${name} set (autovacuum_enabled = off)`);
  }
  await stores.test.query('alter table job_runs disable trigger user');
  await stores.test.query(
    `insert into job_schedule (name, cron, time_zone, policies, decided_until)
     select name, '* * * * * *', 'UTC', '{"overlap": "forbid"}', $2 from unnest($1::text[]) name`,
    [names, secondsAgo(2_000)],
  );
});
afterAll(() => stores.test.drop());

async function fill(): Promise<void> {
  await stores.test.query(
    `insert into job_runs (job_name, fire_time, status, trigger, attempt, claimed_by, started_at, finished_at)
     select name, $2::timestamptz - n * interval '1 second', 'done', 'schedule', 1, 'A', $2::timestamptz - n * interval '1 second', $2
     from   unnest($1::text[]) name, generate_series(1, $3::integer) n`,
    [names, secondsAgo(1_000), RUNS_EACH],
  );
}

/** What an instance asks at an instant, and what it asks now and then. */
async function workAt(secondsBefore: number): Promise<void> {
  const due = names.map((name) => aDue(name, secondsAgo(secondsBefore)));
  await stores.claims.withRow(due);
  const { answers } = await stores.claims.claimDue(due, 'A');
  expect(answers.map(({ verdict }) => verdict)).toEqual(due.map(() => 'claimed'));
  await stores.reaper.outlook(names);
  const run = (jobName: string) =>
    ({ jobName, fireTime: secondsAgo(secondsBefore), attempt: 1, instanceId: 'A', leaseMs: 60_000 }) as never;
  const ended = await stores.runs.endAll(names.map((name) => ({ run: run(name), end: DONE })));
  expect(ended.every(({ kind }) => kind === 'written')).toBe(true);
}

/** Rows that were read by going through a whole partition. A session's reading is counted when it has ended. */
async function readThrough(): Promise<number> {
  await stores.database.close();
  await eventually('the sessions to be gone', async () => {
    const [others] = await stores.test.query<{ count: number }>(
      `select count(*)::integer as count from pg_stat_activity where datname = current_database() and application_name = 'nestjs-distributed-cron'`,
    );
    return others!.count === 0;
  });
  const [sum] = await stores.test.query<{ rows: number }>(
    `select sum(seq_tup_read)::integer as rows from pg_stat_user_tables where relname like 'job\\_runs\\_%'`,
  );
  return sum!.rows;
}

it('a backfill asks for its job’s last twenty runs, and not for all it has run in a partition that nobody has analyzed', async () => {
  await fill();
  const [job] = names;
  const client = new pg.Client({ connectionString: stores.test.url });
  await client.connect();
  const candidate = {
    jobName: job,
    fireTime: secondsAgo(5_000),
    attempt: 0,
    overlap: 'forbid',
    parallel: 1,
    leaseMs: 60_000,
    placeNeededAt: secondsAgo(-60),
  };
  const calls = [
    [
      `select * from job_run_waiting_1($1, 10, null)`,
      [{ name: job, overlap: 'forbid', parallel: 1, nextDueAt: secondsAgo(-60) }],
    ],
    [`select * from job_run_start_1($1, 'A', 1)`, [candidate]],
  ] as const;
  for (const [sql, given] of calls) {
    await client.query('begin');
    await client.query(
      `insert into job_runs (job_name, fire_time, status, trigger, next_attempt_at, backfill_id) values ($1, $2, 'queued', 'backfill', now(), gen_random_uuid())`,
      [job, secondsAgo(5_000)],
    );
    expect((await client.query(sql, [JSON.stringify(given)])).rows).toMatchObject([
      { job_name: job, trigger: 'backfill' },
    ]);
    const { rows } = await client.query<{ read: number }>(
      `select sum(idx_tup_fetch)::integer as read from pg_stat_xact_user_tables where relname like 'job\\_runs\\_%'`,
    );
    expect(rows[0]!.read).toBeLessThan(200);
    await client.query('rollback');
  }
  await client.end();
});

it('a partition that nobody has analyzed yet is not gone through', async () => {
  await workAt(500);
  await workAt(499);
  expect(await readThrough()).toBe(0);
});
