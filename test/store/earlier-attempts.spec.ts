import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;
beforeAll(async () => {
  stores = await openStores();
});
afterAll(() => stores.close());
beforeEach(() => stores.test.query('delete from job_runs'));

interface Kept {
  attempt: number;
  leftOut?: number;
}

const attempts = (many: number): Kept[] => Array.from({ length: many }, (_, index) => ({ attempt: index + 1 }));

async function listWith(list: unknown, attempt: unknown): Promise<Kept[]> {
  const [row] = await stores.test.query<{ list: Kept[] }>(
    'select earlier_attempts_with_1($1::jsonb, $2::jsonb) as list',
    [JSON.stringify(list), JSON.stringify(attempt)],
  );
  return row!.list;
}

describe('the earlier attempts of a run', () => {
  it('are all kept up to 21', async () => {
    let list: Kept[] = [];
    for (const attempt of attempts(21)) list = await listWith(list, attempt);
    expect(list).toEqual(attempts(21));
  });

  it('are the first and the last 20 from then on, and the first says how many between them were left out', async () => {
    let list = attempts(21);
    for (let attempt = 22; attempt <= 60; attempt++) {
      list = await listWith(list, { attempt });
      expect(list).toEqual([{ attempt: 1, leftOut: attempt - 21 }, ...attempts(attempt).slice(-20)]);
    }
  });

  it('are cut to that at once where a release before has kept them all', async () => {
    expect(await listWith(attempts(1_000), { attempt: 1_001 })).toEqual([
      { attempt: 1, leftOut: 980 },
      ...attempts(1_001).slice(-20),
    ]);
  });

  it('begin anew where what is stored is no list', async () => {
    for (const list of [{}, 'none', null, 7]) expect(await listWith(list, { attempt: 3 })).toEqual([{ attempt: 3 }]);
  });

  // Until start-waiting.ts and reopen-statements.ts, or the functions in their place, call earlier_attempts_with_1:
  // then plain `it`.
  it('grow no further by a claim of what waits', async () => {
    const { test, claims } = stores;
    const fireTime = secondsAgo(10);
    await test.query(
      `insert into job_runs (job_name, fire_time, status, trigger, claimed_by, attempt, releases, started_at, lease_until, earlier_attempts)
       values ('job', $1, 'running', 'schedule', 'A', 61, 60, now(), now(), $2)`,
      [
        fireTime,
        JSON.stringify(
          attempts(60).map((one) => ({
            ...one,
            claimedBy: 'A',
            startedAt: null,
            finishedAt: null,
            status: 'queued',
            error: null,
          })),
        ),
      ],
    );
    await test.query(`update job_runs set status = 'failed', next_attempt_at = now()`);
    const { answers } = await claims.claimWaiting(
      [{ jobName: 'job', fireTime, attempt: 61, overlap: 'forbid', leaseMs: 60_000 }],
      'B',
    );
    expect(answers).toMatchObject([{ verdict: 'claimed', attempt: 62 }]);
    const [row] = await test.query<{ earlier_attempts: Kept[] }>('select earlier_attempts from job_runs');
    expect(row!.earlier_attempts.map(({ attempt }) => attempt)).toEqual([
      1,
      ...attempts(61)
        .slice(-20)
        .map(({ attempt }) => attempt),
    ]);
    expect(row!.earlier_attempts[0]).toMatchObject({ leftOut: 40 });
  });
});
