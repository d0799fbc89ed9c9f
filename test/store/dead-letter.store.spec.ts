import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { DeadLetters } from '../../lib/operations/dead-letters.service.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;
let letters: DeadLetters;
let wakes = 0;
beforeAll(async () => {
  stores = await openStores();
  letters = new DeadLetters(
    stores.deadLetters,
    { wake: () => (wakes += 1) } as never,
    { wake: () => undefined } as never,
  );
});
afterAll(() => stores.close());
beforeEach(async () => {
  wakes = 0;
  await stores.test.query('truncate job_runs, job_actions');
});

const ANNA = { by: 'anna', reason: 'fixed the template' };
const ERROR = { name: 'TypeError', message: 'No such Customer', stack: 'at export' };

/** A run that has ended, or waits, having come there as runs do. */
async function given(
  seconds: number,
  status: string,
  { job = 'export', attempt = 3, error = ERROR as object | null, gap = null as number | null } = {},
): Promise<Date> {
  const fireTime = secondsAgo(seconds);
  await stores.test.query(
    `insert into job_runs (job_name, fire_time, status, trigger, reason, claimed_by, attempt, started_at, finished_at, error, gap_count, lease_until)
     values ($1, $2, case when $3::text = 'skipped' then 'skipped' else 'running' end, 'schedule', 'attempts used up', 'A', $4, now(), now(), $5, $6, now() + interval '1 hour')`,
    [job, fireTime, status, attempt, error && JSON.stringify(error), gap],
  );
  await stores.test.query(
    `update job_runs
     set    status = $3::text,
            next_attempt_at = case when $3 in ('queued', 'failed', 'orphaned') then now() + interval '1 hour' end
     where  job_name = $1
     and    fire_time = $2`,
    [job, fireTime, status],
  );
  return fireTime;
}
const row = async (fireTime: Date) =>
  (await stores.test.query<Record<string, unknown>>('select * from job_runs where fire_time = $1', [fireTime]))[0]!;
const statuses = async () =>
  (await stores.test.query<{ status: string }>('select status from job_runs order by fire_time')).map(
    ({ status }) => status,
  );
const actions = () =>
  stores.test.query('select action, job_name, fire_time, actor, reason, details from job_actions order by id');

describe('a replay', () => {
  it('of a job that was removed is refused: nobody would start it, and it would wait for ever', async () => {
    await stores.test.query(
      `insert into job_schedule (name, cron, time_zone, policies, removed_at) values ('gone', '* * * * *', 'UTC', '{}', now())`,
    );
    const fireTime = await given(5, 'dead', { job: 'gone' });
    await expect(letters.replay('gone', fireTime, ANNA)).rejects.toThrow('its job was removed');
    for (const dryRun of [true, false])
      expect(await letters.replayAll({ status: 'dead' }, ANNA, { dryRun })).toEqual({ runs: [], left: 0 });
    expect(await statuses()).toEqual(['dead']);
    expect((await letters.discardAll({ status: 'dead' }, ANNA, { dryRun: true })).runs).toHaveLength(1);
    await letters.discard('gone', fireTime, ANNA);
    expect(await statuses()).toEqual(['cancelled']);
    await stores.test.query('delete from job_schedule');
  });

  it.each([
    ['dead', { page: 7 }],
    ['failed', { page: 7 }],
    ['cancelled', { page: 7 }],
    ['done', null],
  ])('of a run that is %s resumes from %j', async (status, checkpoint) => {
    const fireTime = await given(5, status);
    await stores.test.query(`update job_runs set checkpoint = '{"page": 7}' where fire_time = $1`, [fireTime]);
    await letters.replay('export', fireTime, ANNA);
    expect(await row(fireTime)).toMatchObject({ checkpoint });
  });

  it('lets a dead run begin again under the same key, with all its attempts, keeping what the last came to', async () => {
    const fireTime = await given(5, 'dead');
    const { id } = await row(fireTime);
    await letters.replay('export', fireTime, ANNA);
    expect(await row(fireTime)).toMatchObject({
      id,
      status: 'queued',
      attempt: 3,
      releases: 3,
      error: ERROR,
      requested_by: 'anna',
      reason: 'replayed by anna (was dead: attempts used up)',
    });
    expect(await actions()).toEqual([
      {
        action: 'replay',
        job_name: 'export',
        fire_time: fireTime,
        actor: 'anna',
        reason: 'fixed the template',
        details: { was: 'dead' },
      },
    ]);
    expect(wakes).toBe(1);

    const { answers } = await stores.claims.claimWaiting(
      [{ jobName: 'export', fireTime, attempt: 3, overlap: 'forbid', leaseMs: 1_000 }],
      'B',
    );
    expect(answers).toMatchObject([{ verdict: 'claimed', attempt: 4, releases: 3 }]);
    expect((await row(fireTime))['earlier_attempts']).toMatchObject([{ attempt: 3, claimedBy: 'A', error: ERROR }]);
  });

  it.each(['failed', 'orphaned', 'done', 'skipped', 'cancelled'])(
    'of one run that is %s is done, too',
    async (status) => {
      const fireTime = await given(5, status, { attempt: status === 'skipped' ? 0 : 1 });
      await letters.replay('export', fireTime, ANNA);
      const { status: now, next_attempt_at } = await row(fireTime);
      expect(now).toBe(['failed', 'orphaned'].includes(status) ? status : 'queued');
      expect((next_attempt_at as Date).getTime()).toBeLessThanOrEqual(Date.now() + 1_000);
    },
  );

  it('forgets that the run was to be cancelled', async () => {
    const fireTime = await given(5, 'cancelled');
    await stores.test.query(`update job_runs set cancel_requested_at = now(), cancel_reason = 'no'`);
    await letters.replay('export', fireTime, ANNA);
    expect(await row(fireTime)).toMatchObject({ cancel_requested_at: null, cancel_reason: null });
  });

  it.each<[string, object, RegExp]>([
    ['queued', {}, /which is queued: it waits to be started already/],
    ['running', {}, /which is running: cancel it first/],
    ['skipped', { attempt: 0, gap: 12 }, /stands for 12 occurrences.*backfill/],
  ])('of a run that is %s %p is refused, and nothing is recorded', async (status, facts, problem) => {
    const fireTime = await given(5, status, facts);
    const before = await row(fireTime);
    const refused = letters.replay('export', fireTime, ANNA);
    await expect(refused).rejects.toThrow(expect.objectContaining({ code: 'run-status' }));
    await expect(refused).rejects.toThrow(problem);
    expect(await row(fireTime)).toEqual(before);
    expect(await actions()).toEqual([]);
  });

  it('of what is not there is refused', async () => {
    await expect(letters.replay('export', secondsAgo(9), ANNA)).rejects.toThrow(
      expect.objectContaining({ code: 'unknown-run' }),
    );
    await expect(letters.replay('export', new Date(NaN), ANNA)).rejects.toThrow('fireTime: expected a Date');
    await expect(letters.replay('export', secondsAgo(9), {} as never)).rejects.toThrow('by:');
  });

  it('B38 of two people at once, one is refused', async () => {
    const fireTime = await given(5, 'dead');
    const ends = await Promise.allSettled([
      letters.replay('export', fireTime, ANNA),
      letters.replay('export', fireTime, { by: 'ben' }),
    ]);
    expect(ends.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(await actions()).toHaveLength(1);
  });
});

describe('a discarded run', () => {
  it.each(['dead', 'failed', 'orphaned'])(
    'that was %s is cancelled with the reason, its error kept',
    async (status) => {
      const fireTime = await given(5, status);
      await letters.discard('export', fireTime, ANNA);
      expect(await row(fireTime)).toMatchObject({
        status: 'cancelled',
        reason: 'discarded: fixed the template',
        next_attempt_at: null,
        error: ERROR,
      });
      expect(await actions()).toMatchObject([{ action: 'discard', actor: 'anna', details: { was: status } }]);
    },
  );

  it('needs a reason, and a run that waits', async () => {
    const fireTime = await given(5, 'done');
    await expect(letters.discard('export', fireTime, { by: 'anna' })).rejects.toThrow('reason: say why');
    await expect(letters.discard('export', fireTime, ANNA)).rejects.toThrow(
      expect.objectContaining({ code: 'run-status' }),
    );
    expect(await statuses()).toEqual(['done']);
  });
});

describe('in bulk', () => {
  it.each<[string, object, number[]]>([
    ['all dead ones', {}, [9, 8, 7]],
    ['those of a job', { jobName: 'export' }, [9, 7]],
    ['from an instant on', { from: secondsAgo(8) }, [8, 7]],
    ['up to an instant', { to: secondsAgo(8) }, [9, 8]],
    ['by a part of their error, whatever its case', { errorContains: 'such customer' }, [9, 8]],
    ['by its name', { errorContains: 'typeerror' }, [9, 8]],
    ['without wildcards', { errorContains: '%' }, []],
    ['those that failed', { status: 'failed' }, [6]],
  ])('%s are found, replayed and discarded', async (_name, filter, expected) => {
    const prepare = async () => {
      await stores.test.query('truncate job_runs');
      await given(9, 'dead');
      await given(8, 'dead', { job: 'other' });
      await given(7, 'dead', { error: null });
      await given(6, 'failed');
      await given(5, 'done');
    };
    const times = expected.map((seconds) => secondsAgo(seconds));
    const timesOf = ({ runs }: { runs: readonly { fireTime: Date }[] }) => runs.map(({ fireTime }) => fireTime);

    await prepare();
    const before = await statuses();
    expect(timesOf(await letters.replayAll(filter, ANNA, { dryRun: true }))).toEqual(times);
    expect(timesOf(await letters.discardAll(filter, { by: 'anna' }, { dryRun: true }))).toEqual(times);
    await expect(letters.discardAll(filter, { by: 'anna' })).rejects.toThrow(
      'SchedulerService.discardAll: reason: say why',
    );
    expect(await statuses()).toEqual(before);
    expect(await actions()).toEqual([]);

    expect(timesOf(await letters.replayAll(filter, ANNA))).toEqual(times);
    expect(await stores.test.query('select from job_runs where releases = 3')).toHaveLength(times.length);
    await prepare();
    expect(timesOf(await letters.discardAll(filter, ANNA))).toEqual(times);
    expect((await statuses()).filter((status) => status === 'cancelled')).toHaveLength(times.length);
    expect(await actions()).toHaveLength(2 * times.length);
  });

  it('stops at its limit, the earliest first, and says how many are left; each run is recorded', async () => {
    for (const seconds of [9, 8, 7, 6, 5]) await given(seconds, 'dead');
    expect(await letters.replayAll({}, ANNA, { limit: 2, dryRun: true })).toMatchObject({ left: 3 });
    expect(await letters.replayAll({}, ANNA, { limit: 2 })).toEqual({
      runs: [
        { jobName: 'export', fireTime: secondsAgo(9) },
        { jobName: 'export', fireTime: secondsAgo(8) },
      ],
      left: 3,
    });
    expect(await statuses()).toEqual(['queued', 'queued', 'dead', 'dead', 'dead']);
    expect(await letters.discardAll({}, ANNA, { limit: 1 })).toMatchObject({ left: 2 });
    expect(await actions()).toMatchObject([
      {
        action: 'replay',
        fire_time: secondsAgo(9),
        actor: 'anna',
        reason: 'fixed the template',
        details: { filter: { status: 'dead' } },
      },
      { action: 'replay', fire_time: secondsAgo(8) },
      { action: 'discard', fire_time: secondsAgo(7) },
    ]);
  });

  it('passes over a run that somebody else changes right now', async () => {
    const held = await given(9, 'dead');
    await given(8, 'dead');
    const holder = new pg.Client({ connectionString: stores.test.url });
    await holder.connect();
    await holder.query('begin');
    await holder.query('select from job_runs where fire_time = $1 for update', [held]);
    try {
      expect(await letters.replayAll({}, ANNA)).toMatchObject({ runs: [{ fireTime: secondsAgo(8) }], left: 1 });
    } finally {
      await holder.end();
    }
  });

  it('refuses what it does not know, with all problems', async () => {
    const refused = letters.replayAll({ status: 'done', from: 'yesterday', job: 'x' } as never, ANNA, { limit: 0 });
    for (const problem of [
      'status: expected "dead", "failed" or "orphaned"',
      'from: expected a Date',
      'Unknown option "job"',
      'limit: expected at least 1',
    ]) {
      await expect(refused).rejects.toThrow(problem);
    }
  });
});
