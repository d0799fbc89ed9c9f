import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { DueOccurrence } from '../../lib/runs/claim.js';
import { aDue as due } from '../support/due.js';
import { blocked, InsertGate } from '../support/gate.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;
let jobs = 0;

beforeAll(async () => {
  stores = await openStores();
});
afterAll(() => stores.close());

/** A name nobody else in this file uses. */
const newJob = () => `job-${++jobs}`;

async function verdicts(occurrences: DueOccurrence[], instanceId = 'A'): Promise<string[]> {
  const { answers } = await stores.claims.claimDue(occurrences, instanceId);
  return answers.map(({ verdict }) => verdict);
}

const rowsOf = (jobName: string) =>
  stores.test.query<{
    fire_time: Date;
    status: string;
    reason: string | null;
    claimed_by: string | null;
    attempt: number;
  }>('select fire_time, status, reason, claimed_by, attempt from job_runs where job_name = $1 order by fire_time', [
    jobName,
  ]);

describe('claiming what is due', () => {
  it('G1 lets one of two instances win an occurrence; the loser writes nothing', async () => {
    const job = newJob();
    expect(await verdicts([due(job, secondsAgo(1))], 'A')).toEqual(['claimed']);
    expect(await verdicts([due(job, secondsAgo(1))], 'B')).toEqual(['taken']);
    expect(await rowsOf(job)).toMatchObject([{ status: 'running', claimed_by: 'A', attempt: 1 }]);
  });

  it('G1 is kept by the database itself: the same occurrence cannot be stored twice', async () => {
    const job = newJob();
    const insert = `insert into job_runs (job_name, fire_time, status, trigger, reason) values ($1, $2, 'skipped', 'schedule', 'test')`;
    await stores.test.query(insert, [job, secondsAgo(1)]);
    await expect(stores.test.query(insert, [job, secondsAgo(1)])).rejects.toMatchObject({ code: '23505' });
  });

  it('G1 claims once what a batch names twice, or its instance would run it twice', async () => {
    const job = newJob();
    const allowed = due(job, secondsAgo(1), { overlap: 'allow' });
    expect(await verdicts([allowed, allowed])).toEqual(['claimed']);
    expect(await rowsOf(job)).toHaveLength(1);
  });

  it('G2 refuses what is not due by the database’s clock, and leaves no row', async () => {
    const job = newJob();
    expect(await verdicts([due(job, secondsAgo(-600))])).toEqual(['early']);
    expect(await verdicts([due(job, secondsAgo(5), { startsAt: secondsAgo(-600) })])).toEqual(['early']);
    expect(await rowsOf(job)).toEqual([]);
  });

  it('answers every candidate of a batch', async () => {
    const [free, taken, early] = [newJob(), newJob(), newJob()];
    await verdicts([due(taken, secondsAgo(1))], 'B');
    const { answers } = await stores.claims.claimDue(
      [due(early, secondsAgo(-600)), due(free, secondsAgo(1)), due(taken, secondsAgo(1))],
      'A',
    );
    expect(Object.fromEntries(answers.map(({ jobName, verdict }) => [jobName, verdict]))).toEqual({
      [free]: 'claimed',
      [taken]: 'taken',
      [early]: 'early',
    });
  });

  it('trap 2: a loser waits for an uncommitted winner and then knows that it lost', async () => {
    const job = newJob();
    const gate = await InsertGate.shut(stores.test, 'winner');
    const winner = verdicts([due(job, secondsAgo(1), { overlap: 'allow' })], 'winner');
    await gate.reached();
    const loser = verdicts([due(job, secondsAgo(1), { overlap: 'allow' })], 'loser');
    await blocked(stores.test, 2);
    await gate.open();
    expect(await winner).toEqual(['claimed']);
    expect(await loser).toEqual(['taken']);
  });

  it('trap 21: an occurrence whose claimer dies before its commit goes to the one that waits', async () => {
    const job = newJob();
    const gate = await InsertGate.shut(stores.test, 'dies');
    const dying = verdicts([due(job, secondsAgo(1))], 'dies');
    const pid = await gate.reached();
    const waiting = verdicts([due(job, secondsAgo(1))], 'lives');
    await blocked(stores.test, 2);
    await stores.test.query('select pg_terminate_backend($1)', [pid]);
    await expect(dying).rejects.toThrow();
    expect(await waiting).toEqual(['claimed']);
    await gate.open();
    expect(await rowsOf(job)).toMatchObject([{ claimed_by: 'lives' }]);
  });
});

describe('G8 overlap forbid', () => {
  it('trap 1: two fire times of one job, claimed while the first claim is not committed yet, never run side by side', async () => {
    const job = newJob();
    const gate = await InsertGate.shut(stores.test, 'first');
    const first = verdicts([due(job, secondsAgo(2))], 'first');
    await gate.reached();
    const second = verdicts([due(job, secondsAgo(1))], 'second');
    await blocked(stores.test, 2);
    await gate.open();
    expect(await first).toEqual(['claimed']);
    expect(await second).toEqual(['waiting']);
    const running = (await rowsOf(job)).filter(({ status }) => status === 'running');
    expect(running).toHaveLength(1);
  });

  it('records what was due while an earlier run held its lease', async () => {
    const job = newJob();
    await verdicts([due(job, secondsAgo(10))]);
    await stores.test.query(`update job_runs set started_at = fire_time where job_name = $1`, [job]);
    expect(await verdicts([due(job, secondsAgo(5))], 'B')).toEqual(['skipped']);
    expect((await rowsOf(job))[1]).toMatchObject({ status: 'skipped', reason: 'overlap', attempt: 0 });
  });

  it('trap 4: what was due before the run in the way began is late, not lost', async () => {
    const job = newJob();
    await verdicts([due(job, secondsAgo(3))]);
    expect(await verdicts([due(job, secondsAgo(2))], 'B')).toEqual(['waiting']);
    await stores.test.query(`update job_runs set status = 'done' where job_name = $1`, [job]);
    expect(await verdicts([due(job, secondsAgo(2))], 'B')).toEqual(['claimed']);
  });

  it('starts one of several late occurrences of a job, the oldest', async () => {
    const job = newJob();
    expect(await verdicts([due(job, secondsAgo(1)), due(job, secondsAgo(3)), due(job, secondsAgo(2))])).toEqual([
      'claimed',
      'waiting',
      'waiting',
    ]);
    expect((await rowsOf(job)).map(({ fire_time }) => fire_time)).toEqual([secondsAgo(3)]);
  });

  it('is not held up by a run whose lease ran out', async () => {
    const job = newJob();
    await verdicts([due(job, secondsAgo(5))]);
    await stores.test.query(`update job_runs set lease_until = now() - interval '1 second' where job_name = $1`, [job]);
    expect(await verdicts([due(job, secondsAgo(1))], 'B')).toEqual(['claimed']);
  });

  it('allow runs side by side', async () => {
    const job = newJob();
    expect(
      await verdicts([due(job, secondsAgo(2), { overlap: 'allow' }), due(job, secondsAgo(1), { overlap: 'allow' })]),
    ).toEqual(['claimed', 'claimed']);
  });
});

describe('G5 what an operator decided', () => {
  it.each([
    ['disabled', 'enabled = false'],
    ['paused', `paused_at = now(), paused_until = now() + interval '1 hour'`],
    ['paused', 'paused_at = now()'],
  ])('is read in the claim itself: %s (%s)', async (reason, change) => {
    const job = newJob();
    await stores.test.query(
      `insert into job_schedule (name, cron, time_zone, policies, decided_until) values ($1, '* * * * * *', 'UTC', '{}', now() - interval '1 minute')`,
      [job],
    );
    await stores.test.query(`update job_schedule set ${change} where name = $1`, [job]);
    expect(await verdicts([due(job, secondsAgo(1))])).toEqual(['skipped']);
    expect(await rowsOf(job)).toMatchObject([{ status: 'skipped', reason }]);
  });

  it('a pause that is over holds nothing up', async () => {
    const job = newJob();
    await stores.test.query(
      `insert into job_schedule (name, cron, time_zone, policies, decided_until, paused_at, paused_until)
       values ($1, '* * * * * *', 'UTC', '{}', now() - interval '1 minute', now(), now() - interval '1 second')`,
      [job],
    );
    expect(await verdicts([due(job, secondsAgo(1))])).toEqual(['claimed']);
  });
});

describe('trap 22: batches', () => {
  it('of two instances with the same jobs in opposite orders never deadlock', async () => {
    const names = Array.from({ length: 100 }, newJob);
    for (let round = 20; round > 0; round--) {
      const batch = names.map((name, index) =>
        due(name, secondsAgo(round), { overlap: index % 2 === 0 ? 'allow' : 'forbid' }),
      );
      const results = await Promise.all([
        verdicts(batch, 'A'),
        verdicts([...batch].reverse(), 'B'),
        verdicts(batch, 'C'),
      ]);
      const claimed = results.flat().filter((verdict) => verdict === 'claimed').length;
      expect(claimed).toBe(100);
      await stores.test.query(`update job_runs set status = 'done' where status = 'running'`);
    }
    const [{ deadlocks }] = (await stores.test.query<{ deadlocks: string }>(
      'select deadlocks from pg_stat_database where datname = current_database()',
    )) as [{ deadlocks: string }];
    expect(Number(deadlocks)).toBe(0);
  });

  it('sorted by key whatever the order they come in', async () => {
    const [a, b] = [newJob(), newJob()].sort();
    const { answers } = await stores.claims.claimDue([due(b!, secondsAgo(1)), due(a!, secondsAgo(1))], 'A');
    expect(answers.map(({ jobName }) => jobName)).toEqual([a, b]);
  });
});
