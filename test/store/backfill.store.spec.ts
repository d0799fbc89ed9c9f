import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { planCatchUp, type CatchUpPlan } from '../../lib/catch-up/catch-up.js';
import pg from 'pg';
import type { JobDefinition } from '../../lib/options/job-definition.js';
import type { NewBackfill } from '../../lib/catch-up/backfill.repository.js';
import { blocked } from '../support/gate.js';
import { aJob } from '../support/job.js';
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
  await stores.test.query('delete from job_schedule');
  await stores.test.query('delete from job_backfills');
});

const JOB = aJob('job', '*/10 * * * * *', { missed: 'skip', lateAfterMs: 5_000 });

/** A fire time of the job, this many occurrences ago. */
const fires = (occurrencesAgo: number) =>
  new Date(Math.floor(secondsAgo(60).getTime() / 10_000) * 10_000 - occurrencesAgo * 10_000);

function asked(from: Date, to: Date, changes: Partial<NewBackfill> = {}): Promise<string> {
  return stores.backfills.create({
    jobName: 'job',
    from,
    to,
    maxConcurrent: 100,
    beside: false,
    replay: false,
    total: 0,
    requestedBy: null,
    reason: null,
    ...changes,
  });
}

/** Feeds as a replica does: again while there is more, and while somebody else is at it. */
async function feed(id: string, job: JobDefinition = JOB) {
  const fed = await stores.feeds.feed(id, job);
  if (!fed) throw new Error('Nothing was fed.');
  return fed;
}

/** A row that the schedule left, after two attempts unless it was skipped. */
async function ran(fireTime: Date, status: string, changes = 'reason = reason'): Promise<void> {
  await stores.test.query(
    `insert into job_runs (job_name, fire_time, status, trigger, reason, attempt, claimed_by, lease_until, started_at, finished_at)
     select 'job', $1, $2, 'schedule', 'as it was', attempt, case when attempt > 0 then 'A' end, now() + interval '1 hour', $1, $1
     from  (select case $2 when 'skipped' then 0 else 2 end as attempt) made`,
    [fireTime, status],
  );
  await stores.test.query(`update job_runs set ${changes} where fire_time = $1`, [fireTime]);
}

interface Row {
  fire_time: Date;
  status: string;
  trigger: string;
  reason: string | null;
  attempt: number;
  gap_from: Date | null;
  gap_count: number | null;
  backfill_id: string | null;
  earlier_attempts: object[];
}
const rows = () => stores.test.query<Row>('select * from job_runs order by fire_time');
const row = async (fireTime: Date) => (await rows()).find((one) => one.fire_time.getTime() === fireTime.getTime());

const startable = () => stores.reaper.waiting([{ name: 'job', maxAttempts: 3, overlap: 'forbid' }], 100);
async function claim(instanceId = 'B', overlap: 'forbid' | 'allow' = 'forbid') {
  const waiting = await stores.reaper.waiting([{ name: 'job', maxAttempts: 3, overlap }], 100);
  return (
    await stores.claims.claimWaiting(
      waiting.map((run) => ({ ...run, overlap, leaseMs: 60_000 })),
      instanceId,
    )
  ).answers;
}
const end = (status = 'done') =>
  stores.test.query(`update job_runs set status = $1, finished_at = now() where status = 'running'`, [status]);

describe('feeding a backfill', () => {
  it('queues no more than it may have open, oldest first, both ends included, and ends when nothing is left', async () => {
    const id = await asked(fires(4), fires(0), { maxConcurrent: 2, beside: true });
    expect((await feed(id)).queued).toEqual([fires(4), fires(3)]);
    expect((await feed(id)).queued).toEqual([]);
    expect(await claim()).toMatchObject([
      { trigger: 'backfill', beside: true },
      { trigger: 'backfill', beside: true },
    ]);
    expect((await feed(id)).queued).toEqual([]);
    await end();
    expect((await feed(id)).queued).toEqual([fires(2), fires(1)]);
    await claim();
    await end('dead');
    expect(await feed(id)).toMatchObject({ queued: [fires(0)], finished: null });
    await claim();
    expect(await feed(id)).toMatchObject({ queued: [], finished: null });
    await end();
    expect(await feed(id)).toMatchObject({ queued: [], finished: { done: 3, dead: 2, leftAlone: 0 } });
    expect(await stores.feeds.feed(id, JOB)).toBeNull();
    expect(await stores.backfills.active(['job'])).toEqual([]);
  });

  it('waits for a failed run’s next attempts: a broken handler does not go through the whole range', async () => {
    const id = await asked(fires(4), fires(0));
    await stores.test.query('update job_backfills set max_concurrent = 1');
    await feed(id);
    await claim();
    await stores.test.query(`update job_runs set status = 'failed', next_attempt_at = now() + interval '1 hour'`);
    expect((await feed(id)).queued).toEqual([]);
  });

  it('leaves alone what ran and what is under way, and says how many', async () => {
    await ran(fires(4), 'done');
    await ran(fires(3), 'dead');
    await ran(fires(2), 'running');
    const id = await asked(fires(4), fires(0), { total: 5 });
    expect((await feed(id)).queued).toEqual([fires(1), fires(0)]);
    expect(await row(fires(4))).toMatchObject({
      status: 'done',
      trigger: 'schedule',
      backfill_id: null,
      earlier_attempts: [],
    });
    expect(await stores.backfills.find(id)).toMatchObject({ total: 5, fed: 2, leftAlone: 3, queued: 2, running: 0 });
  });

  it('passes over a long stretch that ran already without going through it at once', async () => {
    const [minutes, hours] = [60_000, 3_600_000];
    const job = aJob('job', '* * * * *', { lateAfterMs: 5_000 });
    const from = new Date(Math.floor(secondsAgo(0).getTime() / minutes) * minutes - 5 * hours);
    for (let minute = 0; minute < 250; minute++) await ran(new Date(from.getTime() + minute * minutes), 'done');
    const id = await asked(from, new Date(from.getTime() + 250 * minutes));
    expect(await feed(id, job)).toMatchObject({ queued: [], more: true });
    expect(await feed(id, job)).toMatchObject({ queued: [], more: true });
    expect(await feed(id, job)).toMatchObject({ queued: [new Date(from.getTime() + 250 * minutes)], more: false });
  });

  it('runs what was skipped or cancelled before it began, and keeps why it had not run', async () => {
    await ran(fires(1), 'skipped', `reason = 'paused'`);
    await ran(fires(0), 'skipped', `reason = 'overlap', status = 'cancelled'`);
    await feed(await asked(fires(1), fires(0)));
    expect(await row(fires(1))).toMatchObject({
      status: 'queued',
      trigger: 'backfill',
      reason: null,
      earlier_attempts: [{ attempt: 0, status: 'skipped', reason: 'paused', trigger: 'schedule' }],
    });
    expect(await row(fires(0))).toMatchObject({
      status: 'queued',
      earlier_attempts: [{ status: 'cancelled', reason: 'overlap' }],
    });
    expect(await claim()).toMatchObject([{ fireTime: fires(1), attempt: 1 }]);
    // Nothing was attempted: nothing is added.
    expect((await row(fires(1)))!.earlier_attempts).toHaveLength(1);
  });

  it('replays what ran, with its attempts going on as the fence and counting anew', async () => {
    await ran(fires(0), 'done', `checkpoint = '{"page": 7}'`);
    const id = await asked(fires(0), fires(0), { replay: true });
    expect((await feed(id)).queued).toEqual([fires(0)]);
    expect(await claim()).toMatchObject([{ attempt: 3, releases: 2 }]);
    expect(await row(fires(0))).toMatchObject({
      status: 'running',
      checkpoint: null,
      earlier_attempts: [{ attempt: 2, status: 'done', claimedBy: 'A', reason: 'as it was' }],
    });
    await stores.test.query(`update job_runs set lease_until = now() - interval '1 second'`);
    expect(await stores.reaper.reap([{ name: 'job', maxAttempts: 3, overlap: 'forbid' }], 10)).toMatchObject([
      { status: 'orphaned' },
    ]);
    await claim();
    expect((await row(fires(0)))!.earlier_attempts).toMatchObject([
      { attempt: 2, status: 'done' },
      { attempt: 3, status: 'orphaned', claimedBy: 'B' },
    ]);
  });

  it('leaves alone what ran, or is under way, under a former name of the job, also when it replays', async () => {
    const renamed = aJob('new-name', '*/10 * * * * *', { lateAfterMs: 5_000 });
    await stores.schedules.declare([JOB, renamed], null);
    await stores.test.query(`update job_schedule set yields_to = 'new-name' where name = 'job'`);
    for (const [occurrencesAgo, status] of [
      [4, 'done'],
      [3, 'running'],
      [2, 'skipped'],
      [1, 'done'],
    ] as const)
      await ran(fires(occurrencesAgo), status);
    await stores.test.query(
      `insert into job_runs (job_name, fire_time, status, trigger, reason) values ('new-name', $1, 'skipped', 'schedule', 'decided as job')`,
      [fires(1)],
    );
    const standings = await stores.backfills.standings('new-name', fires(4), fires(0));
    expect([4, 3, 2, 1, 0].map((occurrencesAgo) => standings.get(fires(occurrencesAgo).getTime()))).toEqual([
      'ran as another name',
      'under way',
      'never ran',
      'ran as another name',
      undefined,
    ]);
    const id = await asked(fires(4), fires(0), { jobName: 'new-name', replay: true, total: 5 });
    expect((await feed(id, renamed)).queued).toEqual([fires(2), fires(0)]);
    expect(await stores.backfills.find(id)).toMatchObject({ leftAlone: 3, fed: 2 });
  });

  it('leaves to the schedule what it has not decided about and is merely late', async () => {
    const job = aJob('job', '* * * * * *', { lateAfterMs: 3_600_000 });
    await ran(secondsAgo(3), 'skipped');
    const id = await asked(secondsAgo(3), secondsAgo(1));
    expect(await feed(id, job)).toMatchObject({ queued: [secondsAgo(3)], notDecidedYet: true, finished: null });
    await ran(secondsAgo(2), 'done');
    await ran(secondsAgo(1), 'done');
    expect(await feed(id, job)).toMatchObject({ queued: [], notDecidedYet: false });
  });

  it('does not wait for the schedule to decide about what was before the job was there', async () => {
    const job = aJob('job', '* * * * * *', { lateAfterMs: 3_600_000 });
    await stores.schedules.declare([job], null);
    const id = await asked(secondsAgo(3), secondsAgo(1));
    expect((await feed(id, job)).queued).toEqual([secondsAgo(3), secondsAgo(2), secondsAgo(1)]);
  });

  it('goes back to before the job was there, and makes the partitions it needs', async () => {
    const old = new Date('2019-03-01T00:00:00Z');
    const job = aJob('job', '0 0 1 * *');
    const id = await asked(old, new Date('2019-05-01T00:00:00Z'));
    expect((await feed(id, job)).queued).toHaveLength(3);
    expect(await claim()).toMatchObject([{ fireTime: old }]);
  });

  it('of replicas that feed at the same time one does, and each occurrence is queued once', async () => {
    const id = await asked(fires(9), fires(0));
    const fed = await Promise.all(Array.from({ length: 6 }, () => stores.feeds.feed(id, JOB)));
    expect(fed.flatMap((one) => one?.queued ?? [])).toHaveLength(10);
    expect(await stores.backfills.find(id)).toMatchObject({ fed: 10, queued: 10 });
  });

  it('trap 8: is left alone where its job is not known', async () => {
    await asked(fires(1), fires(0));
    expect(await stores.backfills.active(['other'])).toEqual([]);
    expect(await stores.backfills.active(['other', 'job'])).toHaveLength(1);
  });
});

describe('a gap that one row stands for', () => {
  const gapUntil = (fireTime: Date, from: Date, count: number) =>
    ran(fireTime, 'skipped', `reason = 'missed: too old', gap_from = '${from.toISOString()}', gap_count = ${count}`);

  /** What a replica would still have to decide from the start of the gap on, were the watermark there. */
  async function undecided(since: Date): Promise<number> {
    await stores.schedules.declare([JOB], null);
    await stores.test.query('update job_schedule set decided_until = $1', [since]);
    const decided = await stores.catchUps.decide(JOB, since.getTime(), (seen) =>
      planCatchUp(JOB, { ...seen, now: fires(1).getTime() }, seen.decided),
    );
    const plan = decided as CatchUpPlan;
    return plan.run.length + plan.record.reduce((sum, { count }) => sum + count, 0);
  }

  it('is counted down as its occurrences get rows of their own, and is gone when all have', async () => {
    await gapUntil(fires(2), fires(5), 4);
    const id = await asked(fires(5), fires(2));
    await stores.test.query('update job_backfills set max_concurrent = 2');
    await feed(id);
    expect(await row(fires(2))).toMatchObject({ status: 'skipped', gap_from: fires(5), gap_count: 2 });
    await stores.test.query('update job_backfills set max_concurrent = 4');
    await feed(id);
    expect(await rows()).toMatchObject(
      [5, 4, 3, 2].map((ago) => ({ fire_time: fires(ago), status: 'queued', gap_from: null, gap_count: null })),
    );
    expect((await row(fires(2)))!.earlier_attempts).toMatchObject([{ status: 'skipped', reason: 'missed: too old' }]);
  });

  it('is handed to the occurrence before when only its end is run: nothing of it is undecided', async () => {
    await gapUntil(fires(2), fires(7), 6);
    await feed(await asked(fires(3), fires(2)));
    expect(await rows()).toMatchObject([
      {
        fire_time: fires(4),
        status: 'skipped',
        reason: 'missed: too old',
        gap_from: fires(7),
        gap_count: 4,
        backfill_id: null,
      },
      { fire_time: fires(3), status: 'queued' },
      { fire_time: fires(2), status: 'queued', gap_from: null, gap_count: null },
    ]);
    expect(await undecided(fires(8))).toBe(0);
  });

  it('stays where it is when something in its middle is run', async () => {
    await gapUntil(fires(2), fires(7), 6);
    await feed(await asked(fires(5), fires(4)));
    expect(await row(fires(2))).toMatchObject({ status: 'skipped', gap_from: fires(7), gap_count: 4 });
    expect(await undecided(fires(8))).toBe(0);
  });

  it('by an expression that was replaced keeps its row: there is nothing else to stand for it', async () => {
    await gapUntil(fires(2), fires(7), 6);
    const job = aJob('job', `${fires(2).getUTCSeconds()} ${fires(2).getUTCMinutes()} * * * *`, { lateAfterMs: 5_000 });
    expect((await feed(await asked(fires(2), fires(2)), job)).queued).toEqual([fires(2)]);
    expect(await rows()).toMatchObject([{ fire_time: fires(2), status: 'queued', gap_from: fires(7), gap_count: 6 }]);
  });

  it('may reach back into a month without partitions', async () => {
    const job = aJob('job', '0 0 1 * *');
    await stores.partitions.ensure([new Date('2018-06-01T00:00:00Z')]);
    await gapUntil(new Date('2018-06-01T00:00:00Z'), new Date('2018-03-01T00:00:00Z'), 4);
    await feed(await asked(new Date('2018-06-01T00:00:00Z'), new Date('2018-06-01T00:00:00Z')), job);
    expect(await rows()).toMatchObject([
      { fire_time: new Date('2018-05-01T00:00:00Z'), gap_count: 3 },
      { status: 'queued' },
    ]);
  });
});

describe('cancelling a backfill', () => {
  const cancel = (id: string) => stores.cancels.cancel(id, 'job', 'ops', 'wrong day');

  it('cancels what waits, lets go on what runs, and feeds no more', async () => {
    const id = await asked(fires(4), fires(0), { maxConcurrent: 3, beside: true });
    await feed(id);
    const [first] = await startable();
    await stores.claims.claimWaiting([{ ...first!, overlap: 'forbid', leaseMs: 60_000 }], 'B');
    await stores.test.query(
      `update job_runs set status = 'failed', attempt = 1, claimed_by = 'A' where fire_time = $1`,
      [fires(3)],
    );
    expect(await cancel(id)).toEqual({ jobName: 'job', cancelled: 2, putBack: 0 });
    const reason = 'backfill cancelled by ops: wrong day';
    expect(await rows()).toMatchObject([
      { status: 'running', reason: null },
      { status: 'cancelled', attempt: 1, reason },
      { status: 'cancelled', attempt: 0, reason },
    ]);
    expect(await startable()).toEqual([]);
    expect(await stores.feeds.feed(id, JOB)).toBeNull();
    expect(await stores.backfills.find(id)).toMatchObject({
      cancelledBy: 'ops',
      cancelledReason: 'wrong day',
      running: 1,
      cancelled: 2,
      fed: 3,
    });
    expect(await cancel(id)).toBeNull();
  });

  it('makes an occurrence that had its own story what it was', async () => {
    await ran(fires(1), 'done');
    await ran(fires(0), 'skipped', `reason = 'paused'`);
    const before = await rows();
    const id = await asked(fires(1), fires(0), { replay: true });
    await feed(id);
    expect(await cancel(id)).toMatchObject({ cancelled: 0, putBack: 2 });
    // Its attempts do not count any more should somebody run it again.
    expect(await rows()).toEqual(before.map((one, index) => ({ ...one, releases: index === 0 ? 2 : 0 })));
  });

  it.each(['"none"', '{"trigger": "x", "startedAt": "yesterday"}', '{"trigger": "schedule", "status": "odd"}'])(
    'cancels an occurrence whose own story somebody has spoilt (%s), and puts the others back',
    async (spoilt) => {
      for (const ago of [1, 0]) await ran(fires(ago), 'done');
      const id = await asked(fires(1), fires(0), { replay: true });
      await feed(id);
      await stores.test.query(
        `update job_runs set earlier_attempts = jsonb_build_array($2::jsonb) where fire_time = $1`,
        [fires(1), spoilt],
      );
      expect(await cancel(id)).toMatchObject({ cancelled: 1, putBack: 1 });
      expect(await rows()).toMatchObject([{ status: 'cancelled' }, { status: 'done' }]);
    },
  );

  it.each(['replay', 'replayAll'] as const)(
    'leaves alone what a person has replayed meanwhile, by %s: that is no run of it any more',
    async (verb) => {
      for (const ago of [1, 0]) await ran(fires(ago), 'done');
      const id = await asked(fires(1), fires(0), { replay: true });
      await feed(id);
      const anna = { by: 'anna', reason: 'only this one' };
      await stores.test.query(`update job_runs set status = 'cancelled', next_attempt_at = null where fire_time = $1`, [
        fires(1),
      ]);
      if (verb === 'replay')
        await stores.deadLetters.replay({ jobName: 'job', fireTime: fires(1) }, ['cancelled'], anna);
      else {
        await stores.test.query(`update job_runs set status = 'dead' where fire_time = $1`, [fires(1)]);
        await stores.deadLettersInBulk.replayAll(
          { status: 'dead', jobName: 'job', from: null, to: null, errorContains: null },
          10,
          anna,
          {},
        );
      }
      expect(await cancel(id)).toMatchObject({ cancelled: 0, putBack: 1 });
      expect(await rows()).toMatchObject([
        { status: 'queued', requested_by: 'anna', backfill_id: null },
        { status: 'done' },
      ]);
      expect(await startable()).toMatchObject([{ fireTime: fires(1) }]);
    },
  );

  it('leaves alone what a person cancels in that moment', async () => {
    for (const ago of [1, 0]) await ran(fires(ago), 'done');
    const id = await asked(fires(1), fires(0), { replay: true });
    await feed(id);
    const person = new pg.Client({ connectionString: stores.test.url });
    await person.connect();
    await person.query('begin');
    await person.query(
      `update job_runs set status = 'cancelled', reason = 'by anna', next_attempt_at = null where fire_time = $1`,
      [fires(1)],
    );
    const cancelling = cancel(id);
    await blocked(stores.test, 1);
    await person.query('commit');
    await person.end();
    expect(await cancelling).toMatchObject({ cancelled: 0, putBack: 1 });
    expect(await rows()).toMatchObject([{ status: 'cancelled', reason: 'by anna' }, { status: 'done' }]);
  });

  it('that is over keeps what is replayed of it: it counts how that ends', async () => {
    const id = await asked(fires(1), fires(1));
    await feed(id);
    await claim();
    await end('dead');
    await feed(id);
    await stores.deadLetters.replay({ jobName: 'job', fireTime: fires(1) }, ['dead'], { by: 'anna', reason: null });
    expect(await stores.backfills.find(id)).toMatchObject({ finishedAt: expect.any(Date), queued: 1, dead: 0 });
  });

  it('what it cancelled before it began, the next backfill runs', async () => {
    const id = await asked(fires(1), fires(0));
    await feed(id);
    await cancel(id);
    expect((await feed(await asked(fires(1), fires(0)))).queued).toEqual([fires(1), fires(0)]);
  });

  it('waits for a pass that feeds: nothing is queued behind its back', async () => {
    const id = await asked(fires(9), fires(0));
    const results = await Promise.all([stores.feeds.feed(id, JOB), cancel(id), stores.feeds.feed(id, JOB)]);
    expect(results[1]).not.toBeNull();
    expect((await rows()).filter(({ status }) => status !== 'cancelled')).toEqual([]);
  });
});

it('is kept as what an operator did, and so is its end', async () => {
  await stores.test.query('delete from job_actions');
  const id = await asked(fires(3), fires(1), { requestedBy: 'ops', reason: 'lost a day', total: 3 });
  await stores.cancels.cancel(id, 'job', null, null);
  await stores.cancels.cancel(id, 'job', null, null);
  expect(
    await stores.test.query('select action, job_name, actor, reason, details from job_actions order by id'),
  ).toEqual([
    {
      ...{ action: 'backfill', job_name: 'job', actor: 'ops', reason: 'lost a day' },
      details: {
        backfill: id,
        from: fires(3).toISOString(),
        to: fires(1).toISOString(),
        occurrences: 3,
        replay: false,
      },
    },
    { action: 'cancel-backfill', job_name: 'job', actor: 'unknown', reason: null, details: { backfill: id } },
  ]);
});
