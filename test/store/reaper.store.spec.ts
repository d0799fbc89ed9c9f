import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { insertRun } from '../support/run-rows.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;

beforeAll(async () => {
  stores = await openStores();
});
afterAll(() => stores.close());
beforeEach(() => stores.test.query('delete from job_runs'));

const JOB = { name: 'job', maxAttempts: 3, overlap: 'forbid' as const };

/** A run of instance A whose lease ended a second ago. */
async function expired(changes = ''): Promise<void> {
  await stores.test.query(
    `insert into job_runs (job_name, fire_time, status, trigger, claimed_by, attempt, started_at, lease_until)
     values ('job', $1, 'running', 'schedule', 'A', 1, now() - interval '10 seconds', now() - interval '1 second')`,
    [secondsAgo(10)],
  );
  if (changes) await stores.test.query(`update job_runs set ${changes}`);
}

const rows = () => stores.test.query<Record<string, unknown>>('select * from job_runs order by fire_time');

async function claimWaiting(instanceId = 'B', overlap: 'forbid' | 'allow' = 'forbid') {
  const waiting = await stores.reaper.waiting([{ ...JOB, overlap }], 100);
  return (
    await stores.claims.claimWaiting(
      waiting.map((run) => ({ ...run, overlap, leaseMs: 60_000 })),
      instanceId,
    )
  ).answers;
}

describe('G6 reaping', () => {
  it('makes a run whose lease ran out claimable at once, and keeps what happened', async () => {
    await expired();
    const [reaped] = await stores.reaper.reap([JOB], 10);
    expect(reaped).toMatchObject({ jobName: 'job', status: 'orphaned', attempt: 1, claimedBy: 'A' });
    expect(reaped!.overdueMs).toBeGreaterThanOrEqual(1_000);
    const [taken] = await claimWaiting();
    expect(taken).toMatchObject({ verdict: 'claimed', attempt: 2 });
    expect(await rows()).toMatchObject([
      {
        status: 'running',
        claimed_by: 'B',
        attempt: 2,
        error: null,
        earlier_attempts: [{ attempt: 1, claimedBy: 'A', status: 'orphaned', error: { name: 'LeaseExpired' } }],
      },
    ]);
  });

  it('leaves alone a run whose lease holds, also when another of its job has lost its own', async () => {
    await expired();
    await stores.test.query(
      `insert into job_runs (job_name, fire_time, status, trigger, claimed_by, attempt, started_at, lease_until)
       values ('job', $1, 'running', 'schedule', 'B', 1, now(), now() + interval '1 minute')`,
      [secondsAgo(5)],
    );
    expect(await stores.reaper.reap([JOB], 10)).toMatchObject([{ fireTime: secondsAgo(10), claimedBy: 'A' }]);
    expect(await rows()).toMatchObject([{ status: 'orphaned' }, { status: 'running', claimed_by: 'B' }]);
  });

  it('G7 parks a run whose attempts are used up, with its error', async () => {
    await expired('attempt = 3');
    expect(await stores.reaper.reap([JOB], 10)).toMatchObject([{ status: 'dead', attempt: 3 }]);
    expect(await rows()).toMatchObject([
      {
        status: 'dead',
        next_attempt_at: null,
        reason: 'the lease of A ran out',
        error: { name: 'LeaseExpired', message: expect.stringContaining('or it took longer than its maxRunTime') },
      },
    ]);
    expect(await claimWaiting()).toEqual([]);
  });

  it('a person runs a dead run once more as README says, and it is dead again when it fails', async () => {
    await expired('attempt = 3');
    await stores.reaper.reap([JOB], 10);
    await stores.test.query(
      `update job_runs set status = 'queued', next_attempt_at = now() where job_name = 'job' and status = 'dead'`,
    );
    expect(await claimWaiting()).toMatchObject([{ verdict: 'claimed', attempt: 4 }]);
    await stores.test.query(`update job_runs set lease_until = now() - interval '1 second'`);
    expect(await stores.reaper.reap([JOB], 10)).toMatchObject([{ status: 'dead', attempt: 4 }]);
  });

  it('does not count attempts that were handed back', async () => {
    await expired('attempt = 3, releases = 1');
    expect(await stores.reaper.reap([JOB], 10)).toMatchObject([{ status: 'orphaned' }]);
  });

  it('trap 8: leaves alone a job it does not know', async () => {
    await expired();
    expect(await stores.reaper.reap([{ name: 'other', maxAttempts: 3, overlap: 'forbid' as const }], 10)).toEqual([]);
    expect(await stores.reaper.outlook(['other'])).toMatchObject({ nextExpiry: null, nextAttempt: null });
    expect(await rows()).toMatchObject([{ status: 'running' }]);
  });

  it('trap 8: a completion that came first wins, however late the reaper’s look was', async () => {
    await expired(`lease_until = now() + interval '1 second'`);
    const owner = new pg.Client({ connectionString: stores.test.url });
    await owner.connect();
    await owner.query('begin');
    await owner.query(`update job_runs set status = 'done', finished_at = now()`);
    await stores.test.query('select pg_sleep(1.1)');
    expect(await stores.reaper.reap([JOB], 10)).toEqual([]);
    await owner.query('commit');
    await owner.end();
    expect(await stores.reaper.reap([JOB], 10)).toEqual([]);
    expect(await rows()).toMatchObject([{ status: 'done' }]);
  });

  it('of two reapers one takes the run', async () => {
    await expired();
    const reaped = await Promise.all([
      stores.reaper.reap([JOB], 10),
      stores.reaper.reap([JOB], 10),
      stores.reaper.reap([JOB], 10),
    ]);
    expect(reaped.flat()).toHaveLength(1);
    const claimed = await Promise.all([claimWaiting('B'), claimWaiting('C'), claimWaiting('D')]);
    expect(claimed.flat()).toHaveLength(1);
  });

  it('tells when the next lease ends and the next attempt is due', async () => {
    await expired(`lease_until = now() + interval '7 seconds'`);
    const outlook = await stores.reaper.outlook(['job']);
    expect(outlook.nextExpiry!.getTime() - outlook.now.getTime()).toBeGreaterThan(5_000);
    expect(outlook.nextAttempt).toBeNull();
  });
});

describe('starting what waits', () => {
  const waitingRun = (secondsBack: number) =>
    stores.test.query(
      `insert into job_runs (job_name, fire_time, status, trigger, next_attempt_at) values ('job', $1, 'queued', 'catch-up', now())`,
      [secondsAgo(secondsBack)],
    );

  it('G8 starts one of several, the oldest, where overlap is forbidden', async () => {
    await waitingRun(20);
    await waitingRun(30);
    expect(await claimWaiting()).toMatchObject([{ fireTime: secondsAgo(30), trigger: 'catch-up', attempt: 1 }]);
    expect(await claimWaiting()).toEqual([]);
    await stores.test.query(`update job_runs set status = 'done' where status = 'running'`);
    expect(await claimWaiting()).toMatchObject([{ fireTime: secondsAgo(20) }]);
  });

  it('starts all of them where it is allowed', async () => {
    await waitingRun(20);
    await waitingRun(30);
    expect(await claimWaiting('B', 'allow')).toHaveLength(2);
  });

  it('G14: a backlog of one job leaves the places of the others free', async () => {
    for (let secondsBack = 40; secondsBack > 20; secondsBack--) await waitingRun(secondsBack);
    await insertRun(stores.test, 'other', secondsAgo(5), 'orphaned');
    const jobs = [JOB, { ...JOB, name: 'other' }];
    expect((await stores.reaper.waiting(jobs, 2)).map(({ jobName }) => jobName).sort()).toEqual(['job', 'other']);
    await claimWaiting();
    expect((await stores.reaper.waiting(jobs, 2)).map(({ jobName }) => jobName)).toEqual(['other']);
  });

  it.each([['paused_at = now()'], ['enabled = false']])(
    'leaves alone what an operator holds back: %s',
    async (held) => {
      await stores.test.query(
        `insert into job_schedule (name, cron, time_zone, policies) values ('job', '* * * * * *', 'UTC', '{}')`,
      );
      await waitingRun(20);
      const [seen] = await stores.reaper.waiting([JOB], 10);
      await stores.test.query(`update job_schedule set ${held}`);
      expect(await stores.reaper.waiting([JOB], 10)).toEqual([]);
      expect(await stores.reaper.outlook(['job'])).toMatchObject({ nextAttempt: null });
      expect(
        (await stores.claims.claimWaiting([{ ...seen!, overlap: 'forbid', leaseMs: 1_000 }], 'B')).answers,
      ).toEqual([]);
      await stores.test.query('delete from job_schedule');
    },
  );

  it('G2: does not start a row before its fire time, whoever wrote it', async () => {
    await waitingRun(-3_600);
    expect(await stores.reaper.waiting([JOB], 10)).toEqual([]);
    const row = [
      { jobName: 'job', fireTime: secondsAgo(-3_600), attempt: 0, overlap: 'allow' as const, leaseMs: 1_000 },
    ];
    expect((await stores.claims.claimWaiting(row, 'B')).answers).toEqual([]);
  });

  it.each([
    ['lease_until', `'infinity'`],
    ['next_attempt_at', `'-infinity'`],
    ['attempt', '2147483647'],
    ['releases', '-1'],
  ])('G14: a row whose %s is %s is refused, and so stops nobody', async (column, value) => {
    await waitingRun(20);
    await expect(stores.test.query(`update job_runs set ${column} = ${value}`)).rejects.toMatchObject({
      code: '23514',
    });
  });

  it('waits until an attempt is due', async () => {
    await waitingRun(20);
    await stores.test.query(`update job_runs set next_attempt_at = now() + interval '1 hour'`);
    expect(await claimWaiting()).toEqual([]);
    const { claims } = stores;
    const early = [{ jobName: 'job', fireTime: secondsAgo(20), attempt: 0, overlap: 'allow' as const, leaseMs: 1_000 }];
    expect((await claims.claimWaiting(early, 'B')).answers).toEqual([]);
  });
});
