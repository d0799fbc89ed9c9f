import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { DueOccurrence } from '../../lib/runs/claim.js';
import { aDue } from '../support/due.js';
import { blocked, InsertGate } from '../support/gate.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;
beforeAll(async () => {
  stores = await openStores();
});
afterAll(() => stores.close());
beforeEach(async () => {
  for (const table of ['job_runs', 'job_schedule']) await stores.test.query(`delete from ${table}`);
});

type Policy = Partial<Pick<DueOccurrence, 'overlap' | 'parallel' | 'queueLimit'>>;

async function claim(seconds: number[], policy: Policy, instanceId = 'A'): Promise<string[]> {
  const due = seconds.map((back) => aDue('job', secondsAgo(back), policy));
  return (await stores.claims.claimDue(due, instanceId)).answers.map(({ verdict, reason }) =>
    verdict === 'skipped' ? reason! : verdict,
  );
}

const rows = () =>
  stores.test.query<{ status: string; reason: string | null; cancel_reason: string | null }>(
    'select status, reason, cancel_reason from job_runs order by fire_time',
  );
const statuses = async () => (await rows()).map(({ status }) => status);

/** The run began before what is claimed next was due. */
const beganLongAgo = () =>
  stores.test.query(`update job_runs set started_at = now() - interval '1 hour' where status = 'running'`);
const end = (status = 'done') =>
  stores.test.query(`update job_runs set status = $1, finished_at = now() where status = 'running'`, [status]);

/** What a replica would start of what waits, as the reaper looks, and then claims. */
async function startWaiting(overlap: DueOccurrence['overlap'], parallel: number | null = 1): Promise<Date[]> {
  const seen = await stores.reaper.waiting([{ name: 'job', maxAttempts: 3, overlap, parallel }], 10);
  const { answers } = await stores.claims.claimWaiting(
    seen.map((run) => ({ ...run, overlap, parallel, leaseMs: 60_000 })),
    'B',
  );
  expect(answers.map(({ fireTime }) => fireTime)).toEqual(seen.map(({ fireTime }) => fireTime));
  return answers.map(({ fireTime }) => fireTime);
}

describe('overlap: queue', () => {
  const QUEUE: Policy = { overlap: 'queue', queueLimit: 2 };

  it('lets what is due wait in line, up to its limit, and starts it in the order of the fire times', async () => {
    expect(await claim([50], QUEUE)).toEqual(['claimed']);
    await beganLongAgo();
    expect(await claim([40, 30, 20], QUEUE)).toEqual(['queued', 'queued', 'overlap: the queue is full']);
    expect(await startWaiting('queue')).toEqual([]);
    await end();
    expect(await startWaiting('queue')).toEqual([secondsAgo(40)]);
    expect(await startWaiting('queue')).toEqual([]);
    await end();
    expect(await startWaiting('queue')).toEqual([secondsAgo(30)]);
  });

  it('is a line also when nothing runs right now: what is due goes to its end', async () => {
    await claim([50], QUEUE);
    await claim([40], QUEUE);
    await end();
    expect(await claim([30], QUEUE)).toEqual(['queued']);
    expect(await startWaiting('queue')).toEqual([secondsAgo(40)]);
  });

  it('has its limit for itself: what is caught up after an outage takes no place of it', async () => {
    await claim([50], QUEUE);
    await stores.test.query(
      `insert into job_runs (job_name, fire_time, status, trigger, next_attempt_at)
       select 'job', $1::timestamptz - n * interval '1 hour', 'queued', 'catch-up', now() from generate_series(1, 5) n`,
      [secondsAgo(50)],
    );
    expect(await claim([40, 30, 20], QUEUE)).toEqual(['queued', 'queued', 'overlap: the queue is full']);
    await end();
    expect(await startWaiting('queue')).toEqual([secondsAgo(40)]);
  });

  it('of a batch starts the first, and lets the others wait', async () => {
    expect(await claim([50, 40, 30, 20], QUEUE)).toEqual(['claimed', 'queued', 'queued', 'overlap: the queue is full']);
  });

  it('trap 1: two instances with two fire times of one job, while the first is not committed yet', async () => {
    const gate = await InsertGate.shut(stores.test, 'winner');
    const winner = claim([50], QUEUE, 'winner');
    await gate.reached();
    const other = claim([40], QUEUE, 'other');
    await blocked(stores.test, 2);
    await gate.open();
    expect([await winner, await other]).toEqual([['claimed'], ['queued']]);
    await stores.test.query('drop trigger gate on job_runs');
  });
});

describe('overlap: replace', () => {
  const REPLACE: Policy = { overlap: 'replace' };

  it('tells the run under way to stop, and starts the new one when it has ended: never beside it', async () => {
    await claim([50], REPLACE);
    expect(await claim([40], REPLACE)).toEqual(['queued']);
    expect(await rows()).toMatchObject([
      { status: 'running', cancel_reason: 'replaced by a newer one' },
      { status: 'queued' },
    ]);
    expect(await startWaiting('replace')).toEqual([]);
    await end('cancelled');
    expect(await startWaiting('replace')).toEqual([secondsAgo(40)]);
  });

  it('or when its lease has', async () => {
    await claim([50], REPLACE);
    await claim([40], REPLACE);
    await stores.test.query(`update job_runs set lease_until = now() - interval '1 second' where status = 'running'`);
    await stores.reaper.reap([{ name: 'job', maxAttempts: 3, overlap: 'replace' }], 10);
    expect(await statuses()).toEqual(['cancelled', 'queued']);
    expect(await startWaiting('replace')).toEqual([secondsAgo(40)]);
  });

  it('replaces what waits, too: only the newest goes on', async () => {
    await claim([50], REPLACE);
    await claim([40], REPLACE);
    expect(await claim([30, 20], REPLACE)).toEqual(['overlap: replaced by a newer one', 'queued']);
    expect(await rows()).toMatchObject([
      { status: 'running' },
      { status: 'cancelled', reason: 'replaced by a newer one' },
      { status: 'skipped' },
      { status: 'queued' },
    ]);
    await end();
    expect(await claim([10], REPLACE)).toEqual(['claimed']);
    expect(await statuses()).toEqual(['done', 'cancelled', 'skipped', 'cancelled', 'running']);
  });

  it('tells the run under way to stop though the server’s clock was set back since the claim began', async () => {
    await claim([50], REPLACE);
    await stores.test.query(
      `alter table job_runs alter column created_at set default clock_timestamp() - interval '1 minute'`,
    );
    try {
      expect(await claim([40], REPLACE)).toEqual(['queued']);
    } finally {
      await stores.test.query('alter table job_runs alter column created_at set default clock_timestamp()');
    }
    expect(await rows()).toMatchObject([
      { status: 'running', cancel_reason: 'replaced by a newer one' },
      { status: 'queued' },
    ]);
  });

  it('leaves alone what a person asked for, and waits for it', async () => {
    await stores.test.query(
      `insert into job_runs (job_name, fire_time, status, trigger, claimed_by, attempt, started_at, lease_until)
       values ('job', $1::timestamptz + interval '5 milliseconds', 'running', 'manual', 'A', 1, now(), now() + interval '1 minute')`,
      [secondsAgo(60)],
    );
    expect(await claim([40], REPLACE)).toEqual(['queued']);
    expect(await rows()).toMatchObject([{ status: 'running', cancel_reason: null }, { status: 'queued' }]);
  });
});

describe('overlap: allow, with maxParallel', () => {
  const TWO: Policy = { overlap: 'allow', parallel: 2 };

  it('runs so many beside each other, and no more: what is due meanwhile is skipped, what was late waits', async () => {
    expect(await claim([50, 40, 30], TWO)).toEqual(['claimed', 'claimed', 'waiting']);
    await beganLongAgo();
    expect(await claim([20], TWO)).toEqual(['overlap']);
    await stores.test.query(`update job_runs set status = 'done' where fire_time = $1`, [secondsAgo(50)]);
    expect(await claim([10], TWO)).toEqual(['claimed']);
  });

  it('holds for what a person asks for, which costs no occurrence either', async () => {
    await claim([50, 40], TWO);
    await beganLongAgo();
    await stores.test.query(
      `insert into job_runs (job_name, fire_time, status, trigger, beside, next_attempt_at)
       values ('job', $1::timestamptz + interval '5 milliseconds', 'queued', 'manual', true, now())`,
      [secondsAgo(30)],
    );
    expect(await startWaiting('allow', 2)).toEqual([]);
    const asked = {
      jobName: 'job',
      fireTime: new Date(secondsAgo(30).getTime() + 5),
      attempt: 0,
      overlap: 'allow' as const,
      parallel: 2,
      leaseMs: 60_000,
    };
    expect((await stores.claims.claimWaiting([asked], 'B')).answers).toEqual([]);
    await stores.test.query(`update job_runs set status = 'done' where fire_time = $1`, [secondsAgo(50)]);
    expect(await startWaiting('allow', 2)).toEqual([asked.fireTime]);
    expect(await claim([20], TWO)).toEqual(['queued']);
  });

  it('holds for what waits, too, in the claim itself', async () => {
    await claim([50], TWO);
    const waiting = [40, 30, 20].map((seconds) => ({ jobName: 'job', fireTime: secondsAgo(seconds), attempt: 0 }));
    for (const { fireTime } of waiting) {
      await stores.test.query(
        `insert into job_runs (job_name, fire_time, status, trigger, next_attempt_at) values ('job', $1, 'queued', 'catch-up', now())`,
        [fireTime],
      );
    }
    expect(await startWaiting('allow', 2)).toEqual([secondsAgo(40)]);
    const asked = waiting.slice(1).map((run) => ({ ...run, overlap: 'allow' as const, parallel: 2, leaseMs: 60_000 }));
    expect((await stores.claims.claimWaiting(asked, 'B')).answers).toEqual([]);
  });
});

describe('what a person asked for', () => {
  it('never eats an occurrence: one that is due meanwhile waits for it, whatever the policy', async () => {
    for (const overlap of ['forbid', 'queue', 'replace'] as const) {
      await stores.test.query('delete from job_runs');
      await stores.test.query(
        `insert into job_runs (job_name, fire_time, status, trigger, claimed_by, attempt, started_at, lease_until)
         values ('job', $1::timestamptz + interval '5 milliseconds', 'running', 'manual', 'A', 1, now() - interval '1 hour', now() + interval '1 minute')`,
        [secondsAgo(3_600)],
      );
      expect(await claim([10], { overlap })).toEqual(['queued']);
      await end();
      expect(await startWaiting(overlap)).toEqual([secondsAgo(10)]);
    }
  });

  it('nor does it where several may run beside each other', async () => {
    await claim([50], { overlap: 'allow', parallel: 2 });
    await beganLongAgo();
    await stores.test.query(
      `insert into job_runs (job_name, fire_time, status, trigger, claimed_by, attempt, started_at, lease_until)
       values ('job', $1::timestamptz + interval '5 milliseconds', 'running', 'manual', 'A', 1, now() - interval '1 hour', now() + interval '1 minute')`,
      [secondsAgo(3_600)],
    );
    expect(await claim([20, 10], { overlap: 'allow', parallel: 2 })).toEqual(['queued', 'queued']);
    await stores.test.query(`update job_runs set status = 'done' where trigger = 'manual'`);
    expect(await startWaiting('allow', 2)).toEqual([secondsAgo(20)]);
  });
});

describe('a concurrency group', () => {
  const inGroup = (jobName: string, seconds: number) =>
    aDue(jobName, secondsAgo(seconds), { group: 'exports', groupLimit: 2 });
  const verdicts = async (due: DueOccurrence[], instanceId = 'A') =>
    (await stores.claims.claimDue(due, instanceId)).answers.map(({ verdict }) => verdict);

  it('has so many runs under way, of whatever job and on whatever instance; the others wait for a place', async () => {
    expect(await verdicts([inGroup('a', 30), inGroup('b', 20), inGroup('c', 10)])).toEqual([
      'claimed',
      'claimed',
      'waiting',
    ]);
    expect(await verdicts([aDue('alone', secondsAgo(5))])).toEqual(['claimed']);
    await stores.test.query(`update job_runs set status = 'done' where job_name = 'a'`);
    expect(await verdicts([inGroup('c', 10), inGroup('d', 5)], 'B')).toEqual(['claimed', 'waiting']);
  });

  it('counts only runs whose leases hold', async () => {
    await verdicts([inGroup('a', 30), inGroup('b', 20)]);
    await stores.test.query(`update job_runs set lease_until = now() - interval '1 second' where job_name = 'a'`);
    expect(await verdicts([inGroup('c', 10)])).toEqual(['claimed']);
  });

  it('trap 1: two instances with jobs of one group, while the first is not committed yet', async () => {
    await verdicts([inGroup('a', 30)]);
    const gate = await InsertGate.shut(stores.test, 'winner');
    const winner = verdicts([inGroup('b', 20)], 'winner');
    await gate.reached();
    const other = verdicts([inGroup('c', 10)], 'other');
    await blocked(stores.test, 2);
    await gate.open();
    expect([await winner, await other]).toEqual([['claimed'], ['waiting']]);
    await stores.test.query('drop trigger gate on job_runs');
  });

  it('holds for what waits, too', async () => {
    await verdicts([inGroup('a', 30)]);
    for (const job of ['b', 'c']) {
      await stores.test.query(
        `insert into job_runs (job_name, fire_time, status, trigger, next_attempt_at) values ($1, $2, 'queued', 'catch-up', now())`,
        [job, secondsAgo(20)],
      );
    }
    const known = ['b', 'c'].map((name) => ({
      name,
      maxAttempts: 3,
      overlap: 'forbid' as const,
      parallel: 1,
      concurrencyGroup: { name: 'exports', limit: 2 },
    }));
    expect((await stores.reaper.waiting(known, 10)).map(({ jobName }) => jobName)).toEqual(['b']);
    const asked = ['b', 'c'].map((jobName) => ({
      ...{ jobName, fireTime: secondsAgo(20), attempt: 0 },
      overlap: 'forbid' as const,
      leaseMs: 60_000,
      group: 'exports',
      groupLimit: 2,
    }));
    expect((await stores.claims.claimWaiting(asked, 'B')).answers.map(({ jobName }) => jobName)).toEqual(['b']);
  });

  it('gives no place to what cannot start, and goes on with what can', async () => {
    await verdicts([inGroup('a', 50)]);
    for (const [job, back] of [
      ['a', 40],
      ['a', 30],
      ['b', 20],
    ] as const) {
      await stores.test.query(
        `insert into job_runs (job_name, fire_time, status, trigger, next_attempt_at) values ($1, $2, 'queued', 'schedule', now())`,
        [job, secondsAgo(back)],
      );
    }
    const known = ['a', 'b'].map((name) => ({
      name,
      maxAttempts: 3,
      overlap: 'queue' as const,
      parallel: 1,
      concurrencyGroup: { name: 'exports', limit: 2 },
    }));
    expect((await stores.reaper.waiting(known, 10)).map(({ jobName }) => jobName)).toEqual(['b']);
    const asked = [
      ['a', 40],
      ['a', 30],
      ['b', 20],
    ] as const;
    const candidates = asked.map(([jobName, back]) => ({
      jobName,
      fireTime: secondsAgo(back),
      attempt: 0,
      overlap: 'queue' as const,
      leaseMs: 60_000,
      group: 'exports',
      groupLimit: 2,
    }));
    expect((await stores.claims.claimWaiting(candidates, 'B')).answers.map(({ jobName }) => jobName)).toEqual(['b']);
  });

  it('that is full lets a job with a line wait in it, in the order of the fire times and up to its limit', async () => {
    await verdicts([inGroup('a', 60), inGroup('b', 60)]);
    const inLine = (seconds: number) => ({ ...inGroup('c', seconds), overlap: 'queue' as const, queueLimit: 2 });
    expect(await verdicts([inLine(50), inLine(40), inLine(30)])).toEqual(['queued', 'queued', 'skipped']);
    const known = [
      {
        name: 'c',
        maxAttempts: 3,
        overlap: 'queue' as const,
        parallel: 1,
        concurrencyGroup: { name: 'exports', limit: 2 },
      },
    ];
    expect(await stores.reaper.waiting(known, 10)).toEqual([]);
    await stores.test.query(`update job_runs set status = 'done' where job_name = 'a'`);
    expect((await stores.reaper.waiting(known, 10)).map(({ fireTime }) => fireTime)).toEqual([secondsAgo(50)]);
  });
});
