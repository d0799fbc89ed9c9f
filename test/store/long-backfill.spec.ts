import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { openStores, type Stores } from '../support/stores.js';

/** Far less than one look at all rows, which are a thousand blocks. */
const FEW_BLOCKS = 200;
const MANY = 20_000;

let stores: Stores;
let id: string;

beforeAll(async () => {
  stores = await openStores();
  await stores.test.query('alter table job_runs disable trigger user');
});
afterAll(() => stores.close());
beforeEach(async () => {
  await stores.test.query('truncate job_runs');
  await stores.test.query('delete from job_backfills');
  const now = new Date();
  id = await stores.backfills.create({
    jobName: 'job',
    from: now,
    to: now,
    maxConcurrent: 2,
    beside: true,
    replay: false,
    total: MANY,
    requestedBy: 'test',
    reason: null,
  });
});

/** Rows of the job, one for each second of the past, the newest so many seconds old. */
const rows = (status: string, trigger: string, { count = MANY, newest = 100, backfill = null as string | null } = {}) =>
  stores.test.query(
    `insert into job_runs (job_name, fire_time, status, trigger, attempt, claimed_by, started_at, finished_at, reason, next_attempt_at, backfill_id, beside)
     select 'job', date_trunc('second', now()) - (n + $1) * interval '1 second', $2, $3, $4, case when $4 = 1 then 'A' end,
            case when $4 = 1 then now() - interval '2 hours' end,
            case when $2 <> 'queued' then now() - interval '2 hours' + n * interval '1 millisecond' end,
            'for the test', case when $2 = 'queued' then now() - interval '1 minute' end, $5::uuid, $5 is not null
     from   generate_series(1, $6) n`,
    [newest, status, trigger, status === 'done' ? 1 : 0, backfill, count],
  );

/** How many blocks the server reads for a statement, at its fourth time in a session. */
async function blocks(sql: string, params: unknown[]): Promise<number> {
  let read = NaN;
  for (let time = 0; time < 4; time++) {
    const [plan] = await stores.test.query<{
      'QUERY PLAN': { Plan: { 'Shared Hit Blocks': number; 'Shared Read Blocks': number } }[];
    }>(`explain (analyze, buffers, format json) ${sql}`, params);
    const { Plan } = plan!['QUERY PLAN'][0]!;
    read = Plan['Shared Hit Blocks'] + Plan['Shared Read Blocks'];
  }
  return read;
}

const look = () =>
  blocks(`select * from job_run_waiting_1($1, 100, $2)`, [
    JSON.stringify([{ name: 'job', overlap: 'forbid' }]),
    new Date(Date.now() + 60_000).toISOString(),
  ]);

describe.each([
  ['whose statistics are there', async () => void (await stores.test.query('analyze job_runs'))],
  ['that nobody has analyzed', () => Promise.resolve()],
])('on a table %s', (_, analyze) => {
  it('reads little of a long backfill for a look at what waits of it', async () => {
    await rows('done', 'backfill', { backfill: id });
    await rows('queued', 'backfill', { backfill: id, count: 20, newest: 50 });
    await analyze();
    expect(await look()).toBeLessThan(FEW_BLOCKS);
  });

  it('reads little of a long backfill to count what is open of it', async () => {
    await rows('done', 'backfill', { backfill: id });
    await rows('queued', 'backfill', { backfill: id, count: 20, newest: 50 });
    await analyze();
    expect(await blocks('select * from backfill_open_1($1)', [id])).toBeLessThan(FEW_BLOCKS);
  });

  it('reads little of the rows that a job has skipped to find how long it takes', async () => {
    await rows('done', 'schedule', { newest: MANY + 100, count: 30 });
    await rows('skipped', 'schedule');
    await rows('queued', 'backfill', { backfill: id, count: 20, newest: 50 });
    await analyze();
    expect(await look()).toBeLessThan(FEW_BLOCKS);
  });
});

describe('the longest run of a backfill', () => {
  const starts = async (neededInMs: number) =>
    (
      await stores.test.query('select from job_run_waiting_1($1, 100, $2)', [
        JSON.stringify([{ name: 'job', overlap: 'forbid' }]),
        new Date(Date.now() + neededInMs).toISOString(),
      ])
    ).length;

  it('decides whether another is over in time, whatever else has taken longer', async () => {
    // Of three thousand runs the longest took three seconds.
    await rows('done', 'backfill', { backfill: id, count: 3000 });
    await rows('queued', 'backfill', { backfill: id, count: 1, newest: 90 });
    expect(await starts(60_000)).toBe(1);
    expect(await starts(2_500)).toBe(0);
  });

  it('counts of a run whose instants are further apart than an interval can be', async () => {
    await rows('done', 'backfill', { backfill: id, count: 1 });
    await stores.test.query(`update job_runs set started_at = '4713-01-01 BC', finished_at = '294276-01-01'`);
    await rows('queued', 'backfill', { backfill: id, count: 1, newest: 90 });
    expect(await starts(60_000)).toBe(0);
  });
});
