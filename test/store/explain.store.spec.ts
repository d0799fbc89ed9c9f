import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { explanationOf } from '../../lib/operations/explanation.js';
import { PlannedTimes } from '../../lib/operations/planned-times.service.js';
import { ExplainStore } from '../../lib/operations/explain.store.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;
beforeAll(async () => {
  stores = await openStores();
});
afterAll(() => stores.close());
beforeEach(() => stores.test.query('delete from job_runs'));

const facts = (secondsBack: number) =>
  new ExplainStore(stores.database).facts({ jobName: 'job', fireTime: secondsAgo(secondsBack) });
const explain = async (secondsBack: number) => explanationOf({ ...(await facts(secondsBack)), schedule: null });

/** Seconds ago: when an attempt began, and when it ended. */
type Span = readonly [number, number];

/** A run that is done, by attempts one after the other. */
async function ran(fireTime: number, ...attempts: readonly Span[]): Promise<void> {
  const earlier = attempts.slice(0, -1).map(([from, to], index) => ({
    attempt: index + 1,
    claimedBy: 'A',
    startedAt: secondsAgo(from),
    finishedAt: secondsAgo(to),
    status: 'failed',
    error: null,
  }));
  const [from, to] = attempts.at(-1)!;
  await stores.test.query(
    `insert into job_runs (job_name, fire_time, status, trigger, claimed_by, attempt, started_at, lease_until, earlier_attempts) values ('job', $1, 'running', 'schedule', 'A', $2, $3, $3, $4)`,
    [secondsAgo(fireTime), attempts.length, secondsAgo(from), JSON.stringify(earlier)],
  );
  await stores.test.query(`update job_runs set status = 'done', finished_at = $2 where fire_time = $1`, [
    secondsAgo(fireTime),
    secondsAgo(to),
  ]);
}

const skipped = (fireTime: number, reason = 'overlap') =>
  stores.test.query(
    `insert into job_runs (job_name, fire_time, status, trigger, reason, finished_at) values ('job', $1, 'skipped', 'schedule', $2, $1)`,
    [secondsAgo(fireTime), reason],
  );

describe('what a run overlapped', () => {
  it('is judged attempt by attempt, of either run', async () => {
    await ran(100, [100, 95], [50, 45]);
    await ran(90, [90, 80]);
    await ran(49, [47, 40]);
    await ran(99, [98, 97], [30, 20]);
    await skipped(48);
    await skipped(85);
    expect(await facts(100)).toMatchObject({ beside: [secondsAgo(99), secondsAgo(49)], skippedFor: [secondsAgo(48)] });
    expect((await facts(90)).beside).toEqual([]);
    expect((await facts(90)).skippedFor).toEqual([secondsAgo(85)]);
    expect((await facts(99)).beside).toEqual([secondsAgo(100)]);
  });

  it('is what began and has not ended, too', async () => {
    await ran(60, [60, 50]);
    await stores.test.query(
      `insert into job_runs (job_name, fire_time, status, trigger, claimed_by, attempt, started_at, lease_until) values ('job', $1, 'running', 'schedule', 'B', 1, $1, now() + interval '1 hour')`,
      [secondsAgo(55)],
    );
    expect((await facts(60)).beside).toEqual([secondsAgo(55)]);
    expect((await facts(55)).beside).toEqual([secondsAgo(60)]);
  });
});

describe('a run whose earlier attempts somebody has spoilt', () => {
  it.each(['{"no": "list"}', '[{"startedAt": "yesterday", "finishedAt": 7}]', '["none"]', '7'])(
    'as %s',
    async (spoilt) => {
      await ran(100, [100, 80]);
      await ran(90, [90, 70]);
      await stores.test.query('update job_runs set earlier_attempts = $2 where fire_time = $1', [
        secondsAgo(90),
        spoilt,
      ]);
      expect((await facts(100)).beside).toEqual([secondsAgo(90)]);
      expect((await explain(90)).starts).toHaveLength(1);
    },
  );
});

describe('what ran under a former name of the job', () => {
  beforeEach(async () => {
    await stores.test.query('delete from job_schedule');
    await stores.test.query(
      `insert into job_schedule (name, cron, time_zone, policies, yields_to) values ('job', '* * * * * *', 'UTC', '{}', 'new'), ('new', '* * * * * *', 'UTC', '{}', null)`,
    );
  });
  afterAll(() => stores.test.query('delete from job_schedule'));
  const elsewhere = async (secondsBack: number) =>
    (await new ExplainStore(stores.database).facts({ jobName: 'new', fireTime: secondsAgo(secondsBack) })).elsewhere;

  it('is found there; what never ran there is not', async () => {
    await ran(60, [60, 50]);
    await skipped(40);
    expect([await elsewhere(60), await elsewhere(40), await elsewhere(20)]).toEqual(['job', null, null]);
    expect((await facts(60)).elsewhere).toBeNull();
  });
});

describe('what was skipped for an overlap', () => {
  it.each(['overlap', 'overlap: the queue is full'])('names the run that was in its way: %s', async (reason) => {
    await ran(100, [100, 90]);
    await ran(70, [70, 50], [40, 30]);
    await skipped(60, reason);
    const { beside, skippedFor, overlap } = await explain(60);
    expect({ beside, skippedFor }).toEqual({ beside: [secondsAgo(70)], skippedFor: [] });
    expect(overlap).toBe(
      `It overlapped nothing: it was not started, for ${secondsAgo(70).toISOString()} was under way.`,
    );
  });

  it('is another thing than what was skipped for a pause', async () => {
    await ran(70, [70, 50]);
    await skipped(60, 'paused');
    expect(await explain(60)).toMatchObject({ beside: [], overlap: 'It overlapped nothing: it was not started.' });
  });
});

describe('the starts of a run that was begun again', () => {
  const key = { jobName: 'job', fireTime: secondsAgo(70) };
  const claimAgain = () =>
    stores.claims.claimWaiting([{ ...key, attempt: 2, overlap: 'forbid', leaseMs: 60_000 }], 'B');
  const dies = () =>
    stores.test.query(`update job_runs set status = 'dead', reason = 'attempts used up' where status = 'running'`);
  const starts = async () => (await explain(70)).text.split('\n')[1]!.replace(/ \S+Z/g, '');
  beforeEach(async () => {
    await stores.test.query(
      `insert into job_runs (job_name, fire_time, status, trigger, claimed_by, attempt, started_at, finished_at, lease_until, earlier_attempts)
       values ('job', $1, 'running', 'schedule', 'A', 2, $1, $2, $2, $3)`,
      [
        secondsAgo(70),
        secondsAgo(40),
        JSON.stringify([
          {
            attempt: 1,
            claimedBy: 'A',
            startedAt: secondsAgo(71),
            finishedAt: secondsAgo(70),
            status: 'failed',
            error: null,
          },
        ]),
      ],
    );
    await dies();
  });

  it('tell that a person replayed it, before and after it is started', async () => {
    await stores.deadLetters.replay(key, ['dead'], { by: 'anna', reason: null });
    const before = 'attempt 1 on A, failed; attempt 2 on A, ended, replayed by anna (was dead: attempts used up)';
    expect(await starts()).toBe(`Runners started for it: 2, one after the other: ${before}.`);
    expect(await claimAgain()).toMatchObject({ answers: [{ verdict: 'claimed' }] });
    expect(await starts()).toBe(
      `Runners started for it: 3, one after the other: ${before}; attempt 3 on B, under way.`,
    );
  });

  it('are those that there were, when a backfill has it begin again', async () => {
    await stores.test.query(
      `update job_runs
       set    status = 'queued', claimed_by = null, started_at = null, finished_at = null, next_attempt_at = now(),
              earlier_attempts = earlier_attempts || jsonb_build_object('attempt', 2, 'claimedBy', 'A', 'startedAt', started_at, 'finishedAt', finished_at, 'status', 'dead', 'error', error)`,
    );
    expect(await starts()).toBe(
      'Runners started for it: 2, one after the other: attempt 1 on A, failed; attempt 2 on A, dead.',
    );
  });
});

describe('a day that the calendar leaves out', () => {
  it('is explained by that', async () => {
    await stores.test.query(
      `insert into job_schedule (name, cron, time_zone, calendar, policies, decided_until) values ('invoices', '0 3 * * *', 'UTC', '{"exclude":["2027-12-25"]}', '{}', now())`,
    );
    const { kind, why } = await new PlannedTimes(new ExplainStore(stores.database), undefined!, undefined!).explain(
      'invoices',
      new Date('2027-12-25T03:00:00Z'),
    );
    expect(kind).toBe('no occurrence');
    expect(why).toContain(
      'for its calendar leaves it out (exclude: 2027-12-25). The nearest are before it 2027-12-24T03:00:00.000Z and after it 2027-12-26T03:00:00.000Z.',
    );
  });
});
