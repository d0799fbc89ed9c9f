import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { planCatchUp, type CatchUpPlan } from '../../lib/catch-up/catch-up.js';
import { aDue } from '../support/due.js';
import { aJob } from '../support/job.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;
beforeAll(async () => {
  stores = await openStores();
});
afterAll(() => stores.close());
beforeEach(async () => {
  for (const table of ['job_runs', 'job_schedule']) await stores.test.query(`delete from ${table}`);
});

const JOB = aJob('job', '*/10 * * * * *', { missed: 'all', lateAfterMs: 1_000 });

/** What is decided after a minute in which no replica was there. */
async function caughtUp(): Promise<CatchUpPlan> {
  await stores.test.query('update job_schedule set effective_from = $1, decided_until = $1', [secondsAgo(60)]);
  return (await stores.catchUps.decide(JOB, secondsAgo(60).getTime(), (seen) =>
    planCatchUp(JOB, seen, seen.decided),
  )) as CatchUpPlan;
}

const set = (changes: string) => stores.test.query(`update job_schedule set ${changes}`);
const reasons = ({ record }: CatchUpPlan) => record.map(({ reason }) => reason);
/** For what is compared with other times of the test, however long it took to come here. */
const at = (ago: number) => `timestamptz '${secondsAgo(ago).toISOString()}'`;
const MINUTES_AGO = `now() - interval '10 minutes'`;

describe('paused time is not missed', () => {
  beforeEach(() => stores.schedules.declare([JOB], null));

  it('while the pause lasts', async () => {
    await set(`paused_at = ${MINUTES_AGO}`);
    expect(await caughtUp()).toMatchObject({ run: [], record: [{ reason: 'paused' }] });
  });

  it('after the job was resumed, by whatever statement', async () => {
    await set(`paused_at = ${MINUTES_AGO}, paused_by = 'ops', paused_reason = 'migration'`);
    await set('paused_at = null, paused_until = null, paused_by = null, paused_reason = null');
    expect(await caughtUp()).toMatchObject({ run: [], record: [{ reason: 'paused' }] });
    const [row] = await stores.test.query<{ earlier_holds: object[] }>('select earlier_holds from job_schedule');
    expect(row!.earlier_holds).toMatchObject([{ reason: 'paused', by: 'ops', why: 'migration' }]);
  });

  it.each(['{"since": "long ago"}', '"never"', '7'])(
    'can be said of a job whose earlier holds somebody has spoilt: %s',
    async (spoilt) => {
      await stores.test.query('update job_schedule set earlier_holds = $1', [spoilt]);
      await set(`paused_at = now()`);
      await set(`paused_at = null, paused_until = null`);
      await set('enabled = false');
      await set('enabled = true');
      expect(await stores.test.query('select paused_at, enabled from job_schedule')).toEqual([
        { paused_at: null, enabled: true },
      ]);
    },
  );

  it('after the pause has run out by itself, also when another follows', async () => {
    await set(`paused_at = ${MINUTES_AGO}, paused_until = now() - interval '30 seconds'`);
    const first = await caughtUp();
    expect(reasons(first)).toEqual(['paused']);
    expect(first.run.every((fireTime) => fireTime >= secondsAgo(40).getTime())).toBe(true);
    expect(first.run.length).toBeGreaterThan(0);
    await stores.test.query('delete from job_runs');
    await set('paused_at = now(), paused_until = null');
    const second = await caughtUp();
    expect(reasons(second)).toEqual(['paused']);
    expect(second.run.slice(0, first.run.length)).toEqual(first.run);
  });

  it('a pause from now on holds nothing of what was missed before', async () => {
    await set('paused_at = now()');
    expect((await caughtUp()).run.length).toBeGreaterThan(3);
  });

  it('an end alone is a pause from now on', async () => {
    await set(`paused_until = now() + interval '1 hour'`);
    const [row] = await stores.test.query<{ here: boolean }>(
      `select paused_at between now() - interval '1 minute' and clock_timestamp() as here from job_schedule`,
    );
    expect(row).toEqual({ here: true });
  });

  it('a new end of a pause that is over is another pause, and what was due in between is not paused', async () => {
    await set(`paused_at = ${MINUTES_AGO}, paused_until = now() - interval '5 minutes'`);
    await set(`paused_until = now() + interval '1 hour'`);
    expect((await caughtUp()).run.length).toBeGreaterThan(3);
    const [row] = await stores.test.query<{ earlier_holds: object[] }>('select earlier_holds from job_schedule');
    expect(row!.earlier_holds).toHaveLength(1);
  });

  it('an end in the past, or one that is left behind by who resumes the job, is no pause', async () => {
    await set(`paused_until = now() - interval '1 hour'`);
    await set(`paused_at = now(), paused_until = now() + interval '1 hour'`);
    await set('paused_at = null');
    await set(`owner = 'somebody', paused_at = null`);
    expect(await stores.test.query('select paused_at from job_schedule')).toEqual([{ paused_at: null }]);
  });

  it('and neither is the time in which it was disabled', async () => {
    await set('enabled = false');
    await set(`disabled_at = ${MINUTES_AGO}`);
    expect(await caughtUp()).toMatchObject({ run: [], record: [{ reason: 'disabled' }] });
    await stores.test.query('delete from job_runs');
    await set('enabled = true');
    expect(await caughtUp()).toMatchObject({ run: [], record: [{ reason: 'disabled' }] });
    const [row] = await stores.test.query('select disabled_at from job_schedule');
    expect(row).toEqual({ disabled_at: null });
  });

  it('keeps the last hundred pauses', async () => {
    for (let index = 0; index < 105; index++) {
      await set(`paused_at = now(), paused_by = '${index}'`);
      await set('paused_at = null');
    }
    const [row] = await stores.test.query<{ earlier_holds: { by: string }[] }>(
      'select earlier_holds from job_schedule',
    );
    expect(row!.earlier_holds.map(({ by }) => by)).toEqual(
      Array.from({ length: 100 }, (_, index) => String(index + 5)),
    );
  });
});

describe('what is merely late is judged by the time it was due, too', () => {
  const claim = async (secondsLate: number) => {
    const { answers } = await stores.claims.claimDue(
      [aDue('job', secondsAgo(secondsLate), { cron: JOB.schedule.expression, overlap: 'allow' })],
      'A',
    );
    return answers[0]!.reason ?? answers[0]!.verdict;
  };
  beforeEach(async () => {
    await stores.schedules.declare([JOB], null);
    await set(`decided_until = ${MINUTES_AGO}`);
  });

  it('a job that was resumed runs what is due from then on', async () => {
    await set(`paused_at = ${at(30)}, paused_until = ${at(10)}`);
    expect([await claim(40), await claim(20), await claim(5)]).toEqual(['claimed', 'paused', 'claimed']);
    await set('paused_at = null, paused_until = null');
    expect([await claim(41), await claim(21), await claim(6)]).toEqual(['claimed', 'paused', 'claimed']);
  });

  it('also one that was disabled', async () => {
    await set('enabled = false');
    await set(`disabled_at = ${at(30)}`);
    expect(await claim(40)).toBe('disabled');
    await set('enabled = true');
    expect([await claim(41), await claim(20)]).toEqual(['claimed', 'disabled']);
  });

  it('also one that was disabled before anybody noted since when', async () => {
    await set('enabled = false');
    await set('disabled_at = null');
    await set('enabled = true');
    expect(await claim(20)).toBe('disabled');
  });
});
