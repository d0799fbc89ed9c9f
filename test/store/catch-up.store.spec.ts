import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { planCatchUp, type CatchUpPlan } from '../../lib/catch-up/catch-up.js';
import type { JobDefinition } from '../../lib/options/job-definition.js';
import { CatchUpService, CatchUpStore } from '../../lib/catch-up/catch-up.service.js';
import { DatabaseTime, monotonicNow } from '../../lib/database/clock.js';
import { JobCursor } from '../../lib/jobs/job-cursors.js';
import { SchedulerEvents } from '../../lib/observe/scheduler-events.js';
import { ComingBetween } from '../support/coming-between.js';
import { aJob } from '../support/job.js';
import { aDue } from '../support/due.js';
import { insertRun } from '../support/run-rows.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;

beforeAll(async () => {
  stores = await openStores();
});
afterAll(() => stores.close());
beforeEach(async () => {
  await stores.test.query('delete from job_runs');
  await stores.test.query('delete from job_schedule');
});

const JOB = aJob('job', '*/10 * * * * *', { missed: 'all', lateAfterMs: 5_000 });

/** A moment at which the job fires, this many occurrences ago. */
const fires = (occurrencesAgo: number) =>
  new Date(Math.floor(secondsAgo(0).getTime() / 10_000) * 10_000 - occurrencesAgo * 10_000);

async function registered(job: JobDefinition, decidedUntil: Date): Promise<void> {
  await stores.schedules.declare([job], null);
  await stores.test.query('update job_schedule set effective_from = $1, decided_until = $1', [decidedUntil]);
}

const tryToDecide = (job: JobDefinition, from: Date) =>
  stores.catchUps.decide(job, from.getTime(), (seen) => planCatchUp(job, seen, seen.decided));

/** Decides as a replica does: again and again, until nobody else is at it. */
async function decide(job: JobDefinition, from: Date): Promise<CatchUpPlan> {
  const plan = await tryToDecide(job, from);
  return plan === 'busy' ? decide(job, from) : (plan as CatchUpPlan);
}

const ran = (fireTime: Date) => insertRun(stores.test, 'job', fireTime, 'done');
const rows = () =>
  stores.test.query<{ fire_time: Date; status: string; reason: string; gap_from: Date; gap_count: number }>(
    `select fire_time, status, reason, gap_from, gap_count from job_runs where trigger = 'catch-up' order by fire_time`,
  );

describe('trap 21: the hole behind the newest row', () => {
  it('is found: fire times are compared with rows, not with the newest one', async () => {
    await registered(JOB, fires(6));
    await ran(fires(5));
    await ran(fires(2));
    await decide(JOB, fires(6));
    const decided = await rows();
    expect(decided.map(({ fire_time }) => fire_time)).toEqual(expect.arrayContaining([fires(4), fires(3)]));
    expect(decided.every(({ status }) => status === 'queued')).toBe(true);
  });
});

describe('catch-up of a job whose holds can’t be read', () => {
  it.each(['{"since": "long ago"}', '[{"reason": "paused", "since": null, "until": "soon"}]'])(
    'leaves it alone for a while, tells that once, and decides about the others: %s',
    async (holds) => {
      const jobs = ['bad', 'good'].map((name) => ({ ...JOB, name }));
      await stores.schedules.declare(jobs, null);
      await stores.test.query('update job_schedule set effective_from = $1, decided_until = $1', [fires(6)]);
      await stores.test.query(`update job_schedule set earlier_holds = $1 where name = 'bad'`, [holds]);
      const events = new SchedulerEvents();
      const told: string[] = [];
      events.subscribe((event) => void told.push(`${event.type} ${'jobName' in event ? event.jobName : ''}`));
      const missed = jobs.map((job) => new JobCursor(job, fires(6).getTime()));
      const time = new DatabaseTime();
      time.observe(Date.now(), monotonicNow());
      const catchUps = new CatchUpService(
        { pollIntervalMs: 60_000 } as never,
        { due: () => ({ live: [], missed }), whenMissed: () => {} } as never,
        stores.catchUps,
        time,
        events,
      );
      for (let pass = 0; pass < 3; pass++) await catchUps.catchUp();
      expect(told.sort()).toEqual(['data.refused bad', 'run.missed good']);
      expect(await catchUps.catchUp()).toBeGreaterThan(1_000);
    },
  );
});

describe('G9 catch-up', () => {
  it('of replicas that start together decides each occurrence once', async () => {
    await registered(JOB, fires(8));
    const plans = await Promise.all(Array.from({ length: 5 }, () => decide(JOB, fires(8))));
    const decided = plans.flatMap(({ run }) => run);
    expect(new Set(decided).size).toBe(decided.length);
    expect((await rows()).map(({ fire_time }) => fire_time.getTime())).toEqual([...decided].sort());
  });

  it('runs the newest once and records the others in one row', async () => {
    const job = aJob('job', '*/10 * * * * *', { missed: 'once', lateAfterMs: 0 });
    await registered(job, fires(9));
    await decide(job, fires(9));
    const decided = await rows();
    expect(decided).toHaveLength(2);
    expect(decided[0]).toMatchObject({
      status: 'skipped',
      reason: 'missed: superseded by a newer one',
      gap_from: fires(8),
    });
    expect(decided[1]!.status).toBe('queued');
    expect(decided[0]!.gap_count).toBe((decided[0]!.fire_time.getTime() - fires(8).getTime()) / 10_000 + 1);
  });

  it('cancels what an earlier catch-up left to run and nobody began, when a newer one stands in', async () => {
    const job = aJob('job', '*/10 * * * * *', { missed: 'once', lateAfterMs: 0 });
    const [due, left, begun, from] = [20, 19, 18, 9].map(fires) as [Date, Date, Date, Date];
    await registered(job, from);
    await insertRun(stores.test, 'job', due, 'queued');
    await insertRun(stores.test, 'job', left, 'queued');
    await insertRun(stores.test, 'job', begun, 'running');
    await stores.test.query(`update job_runs set trigger = 'catch-up' where fire_time <> $1`, [due]);
    await decide(job, from);
    const earlier = await stores.test.query(
      `select fire_time, status, reason, finished_at is not null as finished from job_runs where fire_time <= $1 order by fire_time`,
      [begun],
    );
    expect(earlier).toEqual([
      { fire_time: due, status: 'queued', reason: 'test', finished: false },
      { fire_time: left, status: 'cancelled', reason: 'missed: superseded by a newer one', finished: true },
      { fire_time: begun, status: 'running', reason: 'test', finished: false },
    ]);
  });

  it('leaves to run what an earlier catch-up left, where all are to run', async () => {
    const [left, from] = [fires(20), fires(6)];
    await registered(JOB, from);
    await insertRun(stores.test, 'job', left, 'queued');
    await stores.test.query(`update job_runs set trigger = 'catch-up'`);
    await decide(JOB, from);
    expect((await rows())[0]).toMatchObject({ fire_time: left, status: 'queued' });
  });

  it('a gap that is recorded is decided: nobody decides it again', async () => {
    const job = aJob('job', '*/10 * * * * *', { missed: 'skip', lateAfterMs: 5_000 });
    await registered(job, fires(9));
    await decide(job, fires(9));
    await stores.test.query('update job_schedule set decided_until = $1', [fires(9)]);
    const again = await decide(job, fires(9));
    expect(again.run).toEqual([]);
    // At most the occurrence that came to be missed meanwhile.
    expect(again.record.reduce((sum, { count }) => sum + count, 0)).toBeLessThanOrEqual(1);
  });

  it('runs nothing of a job that is paused or disabled', async () => {
    await registered(JOB, fires(6));
    await stores.test.query('update job_schedule set paused_at = $1', [fires(9)]);
    expect(await decide(JOB, fires(6))).toMatchObject({ run: [], record: [{ reason: 'paused' }] });
  });

  it('does not take for missed what came due during a pause that has run out', async () => {
    const [paused, start, first, last, resumed] = [9, 6, 5, 4, 3].map(fires) as [Date, Date, Date, Date, Date];
    await registered(JOB, start);
    await stores.test.query('update job_schedule set paused_at = $1, paused_until = $2', [paused, resumed]);
    const plan = await decide(JOB, start);
    expect(plan.run[0]).toBe(resumed.getTime());
    expect(plan.record).toEqual([{ from: first.getTime(), until: last.getTime(), count: 2, reason: 'paused' }]);
  });

  it('a year without any replica costs no more than a minute', async () => {
    const job = aJob('job', '* * * * * *', { missed: 'all', maxCatchUp: 5 });
    const yearAgo = secondsAgo(365 * 86_400);
    await registered(job, yearAgo);
    const plan = await decide(job, yearAgo);
    expect(plan.run).toHaveLength(5);
    const decided = await rows();
    expect(decided.map(({ reason, status }) => reason ?? status)).toEqual([
      'missed: too old',
      'missed: too many',
      'queued',
      'queued',
      'queued',
      'queued',
      'queued',
    ]);
    expect(decided[0]!.gap_count! + decided[1]!.gap_count!).toBeGreaterThan(364 * 86_400);
  });
});

describe('what docs/overlap-missed-retries.md says', () => {
  it('with overlap replace what is caught up tells no run to stop, and waits until the one under way has ended', async () => {
    const replacing = aJob('job', '*/10 * * * * *', { missed: 'once', lateAfterMs: 0, overlap: 'replace' });
    await registered(replacing, fires(6));
    await insertRun(stores.test, 'job', fires(7), 'running');
    await decide(replacing, fires(6));
    const caughtUp = (await rows()).filter(({ status }) => status === 'queued');
    expect(caughtUp).toHaveLength(1);
    const start = async () =>
      (
        await stores.claims.claimWaiting(
          [{ jobName: 'job', fireTime: caughtUp[0]!.fire_time, attempt: 0, overlap: 'replace', leaseMs: 60_000 }],
          'B',
        )
      ).answers;
    expect(await start()).not.toMatchObject([{ verdict: 'claimed' }]);
    expect(
      await stores.test.query(`select status, cancel_requested_at from job_runs where fire_time = $1`, [fires(7)]),
    ).toEqual([{ status: 'running', cancel_requested_at: null }]);
    await stores.test.query(`update job_runs set status = 'done' where fire_time = $1`, [fires(7)]);
    expect(await start()).toMatchObject([{ verdict: 'claimed' }]);
  });

  it('an occurrence whose row was deleted is decided up to the watermark, and undecided after it', async () => {
    await registered(JOB, fires(4));
    for (const ago of [6, 5, 3, 2]) await ran(fires(ago));
    await stores.test.query(`delete from job_runs where fire_time in ($1, $2)`, [fires(5), fires(3)]);
    const { run } = await decide(JOB, fires(7));
    expect(run).not.toContain(fires(5).getTime());
    expect(run).toContain(fires(3).getTime());
  });
});

describe('a replica frozen while it decides', () => {
  it('holds up neither claims nor the others’ decisions, and writes nothing when it wakes up', async () => {
    await registered(JOB, fires(6));
    const frozen = new CatchUpStore(
      stores.database,
      new ComingBetween(stores.database, async () => {
        const live = aDue('job', fires(0), { cron: JOB.schedule.expression });
        expect((await stores.claims.claimDue([live], 'B')).answers).toMatchObject([{ verdict: 'claimed' }]);
        expect((await decide(JOB, fires(6))).run.length).toBeGreaterThan(3);
      }),
    );
    expect(await frozen.decide(JOB, fires(6).getTime(), (seen) => planCatchUp(JOB, seen, seen.decided))).toBe('busy');
  });
});

describe('the watermark', () => {
  it('moves forward only', async () => {
    await registered(JOB, fires(5));
    await stores.schedules.remember([{ job: JOB, decidedUntil: fires(2).getTime() }]);
    await stores.schedules.remember([{ job: JOB, decidedUntil: fires(4).getTime() }]);
    const [schedule] = await stores.test.query('select decided_until from job_schedule');
    expect(schedule).toEqual({ decided_until: fires(2) });
  });

  it('of an expression that was replaced does not count', async () => {
    await registered(JOB, fires(5));
    await stores.schedules.remember([{ job: aJob('job', '* * * * *'), decidedUntil: fires(2).getTime() }]);
    const [schedule] = await stores.test.query('select decided_until from job_schedule');
    expect(schedule).toEqual({ decided_until: fires(5) });
  });

  it('a new job has no past, and the same declaration keeps its own', async () => {
    const [first] = (await stores.schedules.declare([JOB], null)).jobs;
    expect(Math.abs(first!.decidedUntil - secondsAgo(0).getTime())).toBeLessThan(60_000);
    expect((await stores.schedules.declare([JOB], null)).jobs[0]).toEqual(first);
  });

  it('a deploy keeps what an operator decided', async () => {
    await stores.schedules.declare([JOB], null);
    await stores.test.query(`update job_schedule set enabled = false, paused_at = now(), paused_by = 'ops'`);
    const edited = aJob('job', '*/20 * * * * *');
    await stores.schedules.declare([edited], null);
    await stores.takeOvers.takeOver([edited], 'B');
    expect(await stores.test.query('select enabled, paused_by from job_schedule')).toEqual([
      { enabled: false, paused_by: 'ops' },
    ]);
  });
});
