import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;
beforeAll(async () => {
  stores = await openStores();
});
afterAll(() => stores.close());
beforeEach(async () => {
  for (const table of ['job_runs', 'job_schedule']) await stores.test.query(`delete from ${table}`);
  await stores.test.query(
    `insert into job_schedule (name, cron, time_zone, policies, removed_at) values ('gone', '* * * * * *', 'UTC', '{}', now())`,
  );
});

/** A run that instance A had, whose lease ended a while ago. */
async function expired(jobName = 'gone', changes = ''): Promise<void> {
  await stores.test.query(
    `insert into job_runs (job_name, fire_time, status, trigger, claimed_by, attempt, started_at, lease_until)
     values ($1, $2, 'running', 'schedule', 'A', 1, now() - interval '10 minutes', now() - interval '5 minutes')`,
    [jobName, secondsAgo(600)],
  );
  if (changes) await stores.test.query(`update job_runs set ${changes}`);
}

const waits = (fireTime = secondsAgo(20)) =>
  stores.test.query(
    `insert into job_runs (job_name, fire_time, status, trigger, next_attempt_at) values ('gone', $1, 'queued', 'schedule', now())`,
    [fireTime],
  );

const rows = () => stores.test.query<Record<string, unknown>>('select * from job_runs order by fire_time');
const OTHER = { name: 'other', maxAttempts: 3, overlap: 'forbid' as const };
const GONE = { ...OTHER, name: 'gone' };

describe('B28 a job that was removed', () => {
  it.each([
    ['a job of its own', [OTHER]],
    ['none at all', []],
    ['the job, from before it was removed', [GONE]],
  ])('has its last run, whose process is gone, ended for good by an instance that knows %s', async (_, known) => {
    await expired();
    const outlook = await stores.reaper.outlook(known.map(({ name }) => name));
    expect(outlook.nextExpiry!.getTime()).toBeLessThan(outlook.now.getTime());
    const reason = 'the lease of A ran out, and its job was removed';
    expect(await stores.reaper.reap(known, 10)).toMatchObject([
      { jobName: 'gone', status: 'dead', attempt: 1, claimedBy: 'A', reason },
    ]);
    expect(await rows()).toMatchObject([
      { status: 'dead', reason, next_attempt_at: null, error: { name: 'LeaseExpired' } },
    ]);
  });

  it('has it cancelled when somebody had asked for that', async () => {
    await expired('gone', `cancel_requested_at = now(), cancel_reason = 'cancelled by anna'`);
    expect(await stores.reaper.reap([], 10)).toMatchObject([
      { status: 'cancelled', reason: 'cancelled by anna; the lease of A ran out, and its job was removed' },
    ]);
  });

  it('has no other attempt: what waits is cancelled, by whoever looks', async () => {
    expect(await stores.reaper.outlook([])).toMatchObject({ removedWait: false });
    await expired();
    await stores.test.query(
      `update job_runs set status = 'failed', finished_at = now(), next_attempt_at = now() + interval '1 hour'`,
    );
    await waits();
    expect(await stores.reaper.outlook([])).toMatchObject({ nextAttempt: null, removedWait: true });
    expect(await stores.reaper.cancelRemoved(10)).toMatchObject([
      { jobName: 'gone', attempt: 1, reason: 'its job was removed' },
      { jobName: 'gone', attempt: 0, reason: 'its job was removed' },
    ]);
    expect(await rows()).toMatchObject([
      { status: 'cancelled', next_attempt_at: null },
      { status: 'cancelled', reason: 'its job was removed' },
    ]);
    expect(await stores.reaper.cancelRemoved(10)).toEqual([]);
  });

  it('is not started by an instance that knows it from before, whatever it saw', async () => {
    await waits();
    expect(await stores.reaper.outlook(['gone'])).toMatchObject({ nextAttempt: null });
    expect(await stores.reaper.waiting([GONE], 10)).toEqual([]);
    const seen = { jobName: 'gone', fireTime: secondsAgo(20), attempt: 0, overlap: 'forbid' as const, leaseMs: 60_000 };
    expect((await stores.claims.claimWaiting([seen], 'B')).answers).toEqual([]);
  });
});

describe('removing a job', () => {
  it('ends its backfills, too: nobody would ever finish them', async () => {
    await stores.test.query(
      `insert into job_schedule (name, cron, time_zone, policies, handler, options) values ('made', '* * * * * *', 'UTC', '{}', 'report', '{}')`,
    );
    const asked = {
      jobName: 'made',
      from: secondsAgo(100),
      to: secondsAgo(50),
      maxConcurrent: 1,
      beside: false,
      replay: false,
      total: 50,
      requestedBy: null,
      reason: null,
    };
    const id = await stores.backfills.create(asked);
    await stores.runTimeJobs.remove('made');
    expect(await stores.backfills.find(id)).toMatchObject({
      cancelledAt: expect.any(Date),
      cancelledReason: 'its job was removed',
    });
  });
});

describe('a job that no live instance knows', () => {
  const live = () =>
    stores.test.query(
      `insert into job_schedule (name, cron, time_zone, policies) values ('dropped', '* * * * * *', 'UTC', '{"maxAttempts": 3}'), ('former', '* * * * * *', 'UTC', '{"maxAttempts": 3}')`,
    );
  beforeEach(live);

  it('keeps its last run claimable, for a deploy may bring it back', async () => {
    await expired('dropped');
    expect(await stores.reaper.orphanRunsOf(['dropped'])).toMatchObject([
      { jobName: 'dropped', status: 'orphaned', attempt: 1, claimedBy: 'A' },
    ]);
    expect(await rows()).toMatchObject([
      { status: 'orphaned', reason: 'the lease of A ran out, and no live instance knows the job' },
    ]);
  });

  it('has no more attempts than it had declared', async () => {
    await expired('dropped', 'attempt = 4, releases = 1');
    expect(await stores.reaper.orphanRunsOf(['dropped'])).toMatchObject([{ status: 'dead', attempt: 4 }]);
    expect(await rows()).toMatchObject([{ status: 'dead', next_attempt_at: null }]);
  });

  it('nor as a former name: a run of it does not stay running for ever, once those who know it had their time', async () => {
    await stores.test.query(`update job_schedule set yields_to = 'new' where name = 'former'`);
    await expired('former', `lease_until = now() - interval '30 seconds'`);
    expect(await stores.reaper.orphanRunsOf([])).toEqual([]);
    await stores.test.query(`update job_runs set lease_until = now() - interval '2 minutes'`);
    expect(await stores.reaper.orphanRunsOf([])).toMatchObject([{ jobName: 'former', status: 'orphaned' }]);
  });
});
