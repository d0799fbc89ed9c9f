import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { OverlapPolicy } from '../../lib/options/job-definition.js';
import type { StartableJob } from '../../lib/runs/reaping.repository.js';
import { blocked, InsertGate } from '../support/gate.js';
import { aDue } from '../support/due.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;

beforeAll(async () => {
  stores = await openStores();
  // Runs of all kinds are there, without having come by their states.
  await stores.test.query('alter table job_runs disable trigger user');
});
afterAll(() => stores.close());
beforeEach(async () => {
  await stores.test.query('delete from job_runs');
  await stores.test.query('delete from job_backfills');
});

/** Runs of a backfill that wait, for these occurrences of the job. */
async function backfill(
  secondsBack: number[],
  { beside = false, maxConcurrent = 1, overlap = 'forbid' as OverlapPolicy } = {},
): Promise<string> {
  const from = secondsAgo(Math.max(...secondsBack));
  const id = await stores.backfills.create({
    jobName: 'job',
    from,
    to: from,
    maxConcurrent,
    beside,
    replay: false,
    total: 1,
    requestedBy: overlap,
    reason: null,
  });
  for (const seconds of secondsBack) {
    await stores.test.query(
      `insert into job_runs (job_name, fire_time, status, trigger, next_attempt_at, backfill_id, beside) values ('job', $1, 'queued', 'backfill', now(), $2, $3)`,
      [secondsAgo(seconds), id, beside],
    );
  }
  return id;
}

const waits = (secondsBack: number, trigger: string, changes = 'reason = reason') =>
  stores.test
    .query(
      `insert into job_runs (job_name, fire_time, status, trigger, next_attempt_at) values ('job', $1, 'queued', $2, now())`,
      [secondsAgo(secondsBack), trigger],
    )
    .then(() => stores.test.query(`update job_runs set ${changes} where fire_time = $1`, [secondsAgo(secondsBack)]));

const job = (changes: Partial<StartableJob> = {}): StartableJob => ({
  name: 'job',
  maxAttempts: 3,
  overlap: 'forbid',
  ...changes,
});
const look = (changes: Partial<StartableJob> = {}, limit = 100) => stores.reaper.waiting([job(changes)], limit);

/** Claims as a replica does, without a look before, as if its look was long ago. */
async function claim(
  secondsBack: number[],
  { instanceId = 'B', overlap = 'forbid' as OverlapPolicy, placeNeededAt = null as Date | null } = {},
): Promise<Date[]> {
  const waiting = secondsBack.map((seconds) => ({
    jobName: 'job',
    fireTime: secondsAgo(seconds),
    attempt: 0,
    overlap,
    leaseMs: 60_000,
    placeNeededAt,
  }));
  return (await stores.claims.claimWaiting(waiting, instanceId)).answers.map(({ fireTime }) => fireTime);
}

async function live(secondsBack: number[], overlap: OverlapPolicy = 'forbid'): Promise<string[]> {
  const due = secondsBack.map((seconds) => aDue('job', secondsAgo(seconds), { overlap }));
  return (await stores.claims.claimDue(due, 'L')).answers.map(({ verdict }) => verdict);
}

const done = () =>
  stores.test.query(`update job_runs set status = 'done', finished_at = now() where status = 'running'`);
const fireTimes = (found: { fireTime: Date }[]) => found.map(({ fireTime }) => fireTime);

describe('a live occurrence that is due while a backfill runs, of a job that forbids overlap', () => {
  it('is queued, not skipped, and is the next to run, before the rest of the backfill and what is caught up', async () => {
    await backfill([100, 90]);
    expect(await claim([100])).toEqual([secondsAgo(100)]);
    await waits(50, 'catch-up');
    // It was due long after the run in its way began: any other run there would have it skipped.
    await stores.test.query(`update job_runs set started_at = $1 where status = 'running'`, [secondsAgo(30)]);
    expect(await live([10, 5])).toEqual(['queued', 'queued']);
    expect(await live([10, 5])).toEqual(['taken', 'taken']);
    const [row] = await stores.test.query(
      'select status, trigger, reason, attempt from job_runs where fire_time = $1',
      [secondsAgo(10)],
    );
    expect(row).toEqual({ status: 'queued', trigger: 'schedule', reason: 'waits for a run before it', attempt: 0 });
    expect(await look()).toEqual([]);
    expect(await claim([90, 50, 10, 5])).toEqual([]);
    await done();
    for (const next of [10, 5, 50, 90]) {
      expect(fireTimes(await look())).toEqual([secondsAgo(next)]);
      expect(await claim([90, 50, 10, 5])).toEqual([secondsAgo(next)]);
      await stores.test.query(`update job_runs set status = 'done', finished_at = started_at where status = 'running'`);
    }
  });

  it('runs beside a backfill that allows it', async () => {
    await backfill([100, 90, 80], { beside: true, maxConcurrent: 2 });
    expect(await claim([100, 90, 80])).toEqual([secondsAgo(100), secondsAgo(90)]);
    expect(await live([10])).toEqual(['claimed']);
    await stores.test.query(`update job_runs set status = 'done' where fire_time = $1`, [secondsAgo(90)]);
    expect(await claim([80])).toEqual([secondsAgo(80)]);
    // Among themselves live occurrences still forbid it.
    expect(await live([5])).toEqual(['waiting']);
    await stores.test.query(`update job_runs set started_at = $1 where trigger = 'schedule'`, [secondsAgo(10)]);
    expect(await live([5])).toEqual(['skipped']);
  });

  it('is not hindered by a backfill where overlap is allowed; the backfill waits if it forbids it itself', async () => {
    await backfill([100]);
    expect(await live([20], 'allow')).toEqual(['claimed']);
    expect(await look({ overlap: 'allow' })).toEqual([]);
    expect(await claim([100], { overlap: 'allow' })).toEqual([]);
    await done();
    expect(await claim([100], { overlap: 'allow' })).toEqual([secondsAgo(100)]);
    expect(await live([10], 'allow')).toEqual(['claimed']);
  });
});

describe('a backfill gives way', () => {
  const inSeconds = (seconds: number) => new Date(Date.now() + seconds * 1_000);

  it('starts nothing of a job while an occurrence is due, or nearer than its runs take', async () => {
    const id = await backfill([100]);
    for (const nextDueAt of [inSeconds(-1), inSeconds(0)]) {
      expect(await look({ nextDueAt })).toEqual([]);
      expect(await claim([100], { placeNeededAt: nextDueAt })).toEqual([]);
    }
    expect(await look({ nextDueAt: inSeconds(60) })).toHaveLength(1);
    await stores.test.query(
      `insert into job_runs (job_name, fire_time, status, trigger, attempt, claimed_by, lease_until, started_at, backfill_id)
       values ('job', $1, 'running', 'backfill', 1, 'A', now() + interval '1 minute', now() - interval '100 seconds', $2)`,
      [secondsAgo(200), id],
    );
    const end = { place: 0, jobName: 'job', fireTime: secondsAgo(200), attempt: 1, status: 'dead', reason: 'tried' };
    await stores.test.query(`select from job_run_end_1($1, 'A', false)`, [JSON.stringify([end])]);
    expect(await look({ nextDueAt: inSeconds(60) })).toEqual([]);
    expect(await claim([100], { placeNeededAt: inSeconds(60) })).toEqual([]);
    expect(await look({ nextDueAt: inSeconds(600) })).toHaveLength(1);
    expect(await look({ nextDueAt: null })).toHaveLength(1);
    expect(await claim([100], { placeNeededAt: inSeconds(600) })).toEqual([secondsAgo(100)]);
  });

  it('knows from the job’s own last runs how long its first may take', async () => {
    await backfill([100]);
    await stores.test.query(
      `insert into job_runs (job_name, fire_time, status, trigger, attempt, started_at, finished_at)
       values ('job', $1, 'done', 'schedule', 1, now() - interval '100 seconds', now())`,
      [secondsAgo(20)],
    );
    expect(await look({ nextDueAt: inSeconds(60) })).toEqual([]);
    expect(await look({ nextDueAt: inSeconds(600) })).toHaveLength(1);
  });

  it('starts nothing while a live run waits for an attempt that is near, or that is due', async () => {
    await backfill([100]);
    await waits(
      20,
      'schedule',
      `status = 'failed', attempt = 1, claimed_by = 'A', next_attempt_at = now() + interval '50 milliseconds'`,
    );
    expect(await claim([100])).toEqual([]);
    await stores.test.query(`update job_runs set next_attempt_at = now() where trigger = 'schedule'`);
    expect(fireTimes(await look())).toEqual([secondsAgo(20)]);
    expect(await claim([100])).toEqual([]);
    await stores.test.query(
      `update job_runs set next_attempt_at = now() + interval '1 hour' where trigger = 'schedule'`,
    );
    expect(await claim([100])).toEqual([secondsAgo(100)]);
  });

  it('also beside, where an instance has one slot and somebody needs it', async () => {
    await backfill([100], { beside: true });
    const lookFor = (slotNeededAt: Date | null) =>
      stores.reaper.waiting([job({ nextDueAt: inSeconds(0) })], 1, slotNeededAt);
    expect(await lookFor(inSeconds(0))).toEqual([]);
    expect(await lookFor(inSeconds(60))).toHaveLength(1);
    expect(await lookFor(null)).toHaveLength(1);
    expect(await claim([100], { placeNeededAt: inSeconds(0) })).toEqual([]);
  });

  it('comes last: after live ones and after what is caught up', async () => {
    await backfill([100, 95], { beside: true, maxConcurrent: 5 });
    await waits(50, 'catch-up');
    await waits(10, 'schedule');
    expect((await look({ overlap: 'allow' })).map(({ trigger }) => trigger)).toEqual([
      'schedule',
      'catch-up',
      'backfill',
      'backfill',
    ]);
    expect((await look({ overlap: 'allow' }, 2)).map(({ trigger }) => trigger)).toEqual(['schedule', 'catch-up']);
  });
});

describe('a job that is held back', () => {
  it.each(['paused_at = now()', 'enabled = false'])('%s: its backfill waits, too', async (held) => {
    await stores.test.query(
      `insert into job_schedule (name, cron, time_zone, policies) values ('job', '0 0 1 1 *', 'UTC', '{}') on conflict do nothing`,
    );
    await backfill([100]);
    expect(await look()).toHaveLength(1);
    await stores.test.query(`update job_schedule set ${held}`);
    expect(await look()).toEqual([]);
    expect(await claim([100])).toEqual([]);
    await stores.test.query('delete from job_schedule');
    expect(await claim([100])).toEqual([secondsAgo(100)]);
  });
});

describe('maxConcurrent', () => {
  it('trap 1: holds for two replicas that claim while the first claim is not committed yet', async () => {
    await backfill([100, 90, 80, 70], { beside: true, maxConcurrent: 3 });
    const gate = await InsertGate.shut(stores.test, 'first', 'update');
    const first = claim([100, 90], { instanceId: 'first' });
    await gate.reached();
    const second = claim([80, 70], { instanceId: 'second' });
    await blocked(stores.test, 2);
    await gate.open();
    expect(await first).toEqual([secondsAgo(100), secondsAgo(90)]);
    expect(await second).toEqual([secondsAgo(80)]);
    expect(await look()).toEqual([]);
  });

  it('is each backfill’s own', async () => {
    await backfill([100, 90], { beside: true, maxConcurrent: 1 });
    await backfill([80, 70, 60], { beside: true, maxConcurrent: 2 });
    expect(fireTimes(await look()).sort((a, b) => a.getTime() - b.getTime())).toEqual([
      secondsAgo(100),
      secondsAgo(80),
      secondsAgo(70),
    ]);
    expect(await claim([100, 90, 80, 70, 60])).toEqual(
      expect.arrayContaining([secondsAgo(100), secondsAgo(80), secondsAgo(70)]),
    );
    expect(await claim([90, 60])).toEqual([]);
  });

  it('does not count a run whose lease ran out', async () => {
    await backfill([100, 90], { beside: true, maxConcurrent: 1 });
    await claim([100]);
    expect(await look()).toEqual([]);
    await stores.test.query(`update job_runs set lease_until = now() - interval '1 second' where status = 'running'`);
    expect(fireTimes(await look())).toEqual([secondsAgo(90)]);
  });
});
