import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { planCatchUp } from '../../lib/catch-up/catch-up.js';
import type { OwnedRun, RunStatus } from '../../lib/options/run.js';
import { FIRST_STATES, RUN_MOVES } from '../support/run-moves.js';
import type { RunEnd } from '../../lib/runs/outcome.js';
import { aJob } from '../support/job.js';
import { columnsOf, insertRun, RUN_STATES } from '../support/run-rows.js';
import { aDue } from '../support/due.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;

beforeAll(async () => {
  stores = await openStores();
});
afterAll(() => stores.close());
beforeEach(() => stores.test.query('truncate job_runs, job_schedule'));

const FIRE_TIME = secondsAgo(10);
const status = async () => (await stores.test.query<{ status: RunStatus }>('select status from job_runs'))[0]?.status;
const move = (to: RunStatus) => stores.test.query(`update job_runs set ${columnsOf(to)}`);

const PAIRS = RUN_STATES.flatMap((from) =>
  RUN_STATES.filter((to) => to !== from).map((to): [RunStatus, RunStatus] => [from, to]),
);
const isAllowed = ([from, to]: [RunStatus, RunStatus]) => RUN_MOVES.some((one) => one.from === from && one.to === to);

describe('the moves of a run', () => {
  it.each(PAIRS.filter(isAllowed))('lead from %s to %s', async (from, to) => {
    await insertRun(stores.test, 'job', FIRE_TIME, from);
    await move(to);
    expect(await status()).toBe(to);
  });

  it.each(PAIRS.filter((pair) => !isAllowed(pair)))('do not lead from %s to %s, whoever tries', async (from, to) => {
    await insertRun(stores.test, 'job', FIRE_TIME, from);
    await expect(move(to)).rejects.toMatchObject({
      message: expect.stringMatching(new RegExp(`^A run may not go from ${from} to ${to} \\(job of 2`)),
      constraint: 'job_runs_moves_are_known',
    });
    expect(await status()).toBe(from);
  });

  it.each(RUN_STATES)('leave a run that is %s where it is', async (from) => {
    await insertRun(stores.test, 'job', FIRE_TIME, from);
    await move(from);
    expect(await status()).toBe(from);
  });

  it.each(RUN_STATES)('begin as %s where they may', async (first) => {
    const begin = stores.test.query(
      `insert into job_runs (job_name, fire_time, status, trigger, reason, next_attempt_at, claimed_by, attempt, lease_until)
       values ('job', $1, $2, 'schedule', 'test', case when $3 then now() end, 'A', 1, now())`,
      [FIRE_TIME, first, ['queued', 'failed', 'orphaned'].includes(first)],
    );
    if (FIRST_STATES.some((one) => one.status === first)) await begin;
    else await expect(begin).rejects.toThrow(`A run may not begin as ${first} (job of 2`);
  });

  it('are those of a month that is made later, too', async () => {
    const inTwoYears = new Date(Date.now() + 730 * 86_400_000);
    inTwoYears.setMilliseconds(0);
    await stores.partitions.ensure([inTwoYears]);
    await insertRun(stores.test, 'job', inTwoYears, 'done');
    await expect(move('running')).rejects.toThrow('A run may not go from done to running');
  });
});

/**
 * Each move as a statement of the library makes it. A row of the table below is one; the database writes down what it
 * saw.
 */
describe('the statements of the library', () => {
  const JOB = aJob('job', '* * * * * *', { maxAttempts: 2 });
  const KNOWN = [{ name: 'job', maxAttempts: 2, overlap: 'forbid' as const }];
  let seen: string[];

  beforeEach(async () => {
    await stores.test.query(`
      create table if not exists moves (step text);
      truncate moves;
      create or replace function note_move() returns trigger language plpgsql as $$
      begin
        insert into moves values (case when tg_op = 'INSERT' then 'begin as ' || new.status else old.status || ' to ' || new.status end);
        return null;
      end $$;
      create or replace trigger note_move after insert or update of status on job_runs for each row execute function note_move()`);
    await stores.schedules.declare([JOB], null);
    await stores.test.query(`update job_schedule set decided_until = '2000-01-01'`);
  });
  afterAll(() => stores.test.query('drop trigger note_move on job_runs; drop function note_move; drop table moves'));

  const due = aDue('job', FIRE_TIME);

  async function claim(): Promise<OwnedRun> {
    const [answer] = (await stores.claims.claimDue([due], 'A')).answers;
    return owned(answer!.attempt!);
  }

  const owned = (attempt: number) => ({ jobName: 'job', fireTime: FIRE_TIME, attempt, instanceId: 'A' }) as OwnedRun;

  async function claimAgain(): Promise<OwnedRun> {
    await stores.test.query('update job_runs set next_attempt_at = now()');
    const waiting = await stores.reaper.waiting(KNOWN, 1);
    const [answer] = (
      await stores.claims.claimWaiting(
        waiting.map((run) => ({ ...run, overlap: 'forbid' as const, leaseMs: 60_000 })),
        'A',
      )
    ).answers;
    return owned(answer!.attempt!);
  }

  const ending = (given: Partial<RunEnd>): RunEnd => ({
    status: 'failed',
    reason: 'test',
    error: null,
    retryInMs: 0,
    releases: 0,
    ...given,
  });
  const expire = () => stores.test.query(`update job_runs set lease_until = now() - interval '1 second'`);

  const STEPS: Readonly<Record<string, () => Promise<unknown>>> = {
    'begin as running, running to done': async () => stores.runs.complete(await claim()),
    'begin as running, running to failed, failed to running': async () => {
      await stores.runs.end(await claim(), ending({}));
      await claimAgain();
    },
    'begin as running, running to dead': async () =>
      stores.runs.end(await claim(), ending({ status: 'dead', retryInMs: null })),
    'begin as running, running to queued, queued to running': async () => {
      await stores.runs.end(await claim(), ending({ status: 'queued', releases: 1 }));
      await claimAgain();
    },
    'begin as running, running to orphaned, orphaned to running, running to dead': async () => {
      await claim();
      await expire();
      await stores.reaper.reap(KNOWN, 10);
      await claimAgain();
      await expire();
      await stores.reaper.reap(KNOWN, 10);
    },
    'begin as running, running to orphaned': async () => {
      await claim();
      await expire();
      await stores.reaper.orphanRunsOf(['job']);
    },
    'begin as skipped': async () => {
      await stores.test.query('update job_schedule set paused_at = now()');
      await stores.claims.claimDue([due], 'A');
    },
    'begin as queued, begin as skipped': async () => {
      const from = secondsAgo(1_000).getTime();
      await stores.test.query('update job_schedule set decided_until = $1', [new Date(from)]);
      await stores.catchUps.decide(JOB, from, (found) => planCatchUp(JOB, found, found.decided));
    },
    'begin as queued, queued to cancelled': async () => {
      await insertRun(stores.test, 'job', FIRE_TIME, 'queued');
      await stores.test.query(`update job_schedule set handler = 'h', options = '{}'`);
      await stores.runTimeJobs.remove('job');
    },
  };

  it.each(Object.entries(STEPS))('%s', async (steps, act) => {
    await act();
    seen = (await stores.test.query<{ step: string }>('select step from moves')).map(({ step }) => step);
    expect(seen.sort()).toEqual(steps.split(', ').sort());
  });
});
