import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { eventually } from '../cluster/harness/eventually.js';
import { ExplainStore } from '../../lib/operations/explain.store.js';
import { InventoryStore } from '../../lib/operations/inventory.service.js';
import { OverdueStore } from '../../lib/maintenance/watches.service.js';
import { aDue } from '../support/due.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

const JOBS = 50;
const RUNS_EACH = 2_000;
const names = Array.from({ length: JOBS }, (_, index) => `job-${index}`);

let stores: Stores;
beforeAll(async () => {
  stores = await openStores();
  await stores.partitions.ensure([secondsAgo(RUNS_EACH + 3_600), secondsAgo(0)]);
  await stores.test.query('alter table job_runs disable trigger user');
  await stores.test.query(
    `insert into job_schedule (name, cron, time_zone, policies, decided_until)
     select name, '* * * * * *', 'UTC', '{"overlap": "forbid"}', $2 from unnest($1::text[]) name`,
    [names, secondsAgo(100)],
  );
  await stores.test.query(
    `insert into job_runs (job_name, fire_time, status, trigger, attempt, claimed_by, started_at, finished_at)
     select name, $2::timestamptz - n * interval '1 second', 'done', 'schedule', 1, 'A', $2::timestamptz - n * interval '1 second', $2
     from   unnest($1::text[]) name, generate_series(100, $3::integer + 99) n`,
    [names, secondsAgo(0), RUNS_EACH],
  );
  await stores.test.query('analyze job_runs, job_schedule');
});
afterAll(() => stores.test.drop());

/** Rows of runs that were read by going through a whole table, and how often an index was used. */
async function read(): Promise<{ rows: number; lookups: number }> {
  const [sum] = await stores.test.query<{ rows: string; lookups: string }>(
    `select sum(seq_tup_read) as rows, sum(idx_scan) as lookups from pg_stat_user_tables where relname like 'job_runs_%'`,
  );
  return { rows: Number(sum!.rows), lookups: Number(sum!.lookups) };
}

it('B36 a long history costs claims, the reaper, the watch and the lists nothing: none of them goes through it', async () => {
  const before = await read();
  const known = names.map((name) => ({ name, maxAttempts: 3, overlap: 'forbid' as const }));
  const due = names.map((name) => aDue(name, secondsAgo(10)));
  expect((await stores.claims.claimDue(due, 'A')).answers.map(({ verdict }) => verdict)).toEqual(
    due.map(() => 'claimed'),
  );
  await stores.reaper.outlook(names);
  await stores.reaper.reap(known, 100);
  await stores.reaper.cancelRemoved(100);
  await stores.reaper.waiting(known, 100);
  await stores.reaper.orphanRunsOf([]);
  await new OverdueStore(stores.database).outlook([{ name: 'job-1', withinMs: 60_000, catchUpWindowMs: 60_000 }]);
  expect((await new InventoryStore(stores.database).jobs()).jobs).toHaveLength(JOBS);
  await new ExplainStore(stores.database).facts({ jobName: 'job-1', fireTime: secondsAgo(500) });
  await stores.database.close();

  await eventually('what the closed sessions did to be counted', async () => (await read()).lookups > before.lookups);
  expect((await read()).rows).toBe(before.rows);
});
