import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { compileSchedule } from '../../lib/cron/schedule.js';
import type { JobDefinition } from '../../lib/options/job-definition.js';
import { CancelStore, type ManualRun, ManualRunStore } from '../../lib/operations/run-requests.service.js';
import { FlagStore, PauseStore } from '../../lib/operations/holds.service.js';
import { OverrideStore, SkipStore } from '../../lib/operations/schedule-edits.service.js';
import { explanationOf } from '../../lib/operations/explanation.js';
import { ExplainStore } from '../../lib/operations/explain.store.js';
import { storedPolicies } from '../../lib/jobs/stored-job.js';
import { aDue } from '../support/due.js';
import { blocked, InsertGate } from '../support/gate.js';
import { aJob } from '../support/job.js';
import { aRun } from '../support/run.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;
let pauses: PauseStore;
let overrides: OverrideStore;
let flags: FlagStore;
let skips: SkipStore;
let manual: ManualRunStore;
let cancels: CancelStore;
beforeAll(async () => {
  stores = await openStores();
  const { database, partitions } = stores;
  pauses = new PauseStore(database);
  overrides = new OverrideStore(database, partitions);
  flags = new FlagStore(database);
  skips = new SkipStore(database, partitions);
  manual = new ManualRunStore(database, partitions);
  cancels = new CancelStore(database);
});
afterAll(() => stores.close());
beforeEach(async () => {
  for (const table of ['job_runs', 'job_schedule', 'job_instances', 'job_actions', 'job_flags'])
    await stores.test.query(`delete from ${table}`);
  await stores.schedules.declare([JOB], null);
  // What is claimed here was due before the job was declared.
  await stores.test.query(`update job_schedule set decided_until = '2000-01-01'`);
});

const OPS = { by: 'ops', reason: 'because' };
const JOB = aJob('job', '* * * * * *', { flag: 'exports' });
const KNOWN = { name: 'job', maxAttempts: 3, overlap: 'forbid' as const, flag: 'exports' };

const runs = () => stores.test.query<Record<string, unknown>>('select * from job_runs order by fire_time');
const actions = async () =>
  (await stores.test.query<{ action: string }>('select action from job_actions order by id')).map(
    ({ action }) => action,
  );
const claim = async (secondsBack: number, changes = {}) =>
  (await stores.claims.claimDue([aDue('job', secondsAgo(secondsBack), { flag: 'exports', ...changes })], 'A'))
    .answers[0]!;
async function claimWaiting(changes = {}) {
  const waiting = await stores.reaper.waiting([KNOWN], 100);
  return (
    await stores.claims.claimWaiting(
      waiting.map((run) => ({ ...run, overlap: 'forbid', leaseMs: 60_000, flag: 'exports', ...changes })),
      'B',
    )
  ).answers;
}

describe('a pause', () => {
  it('stops the next claim, and its end lets the job go on; both are kept', async () => {
    await pauses.pause('job', null, OPS);
    expect(await claim(1)).toMatchObject({ verdict: 'skipped', reason: 'paused' });
    expect(await pauses.resume('job', OPS)).toBe(true);
    expect(await pauses.resume('job', OPS)).toBe(false);
    const [row] = await stores.test.query('select paused_at, paused_by, earlier_holds from job_schedule');
    expect(row).toMatchObject({
      paused_at: null,
      paused_by: null,
      earlier_holds: [{ reason: 'paused', by: 'ops', why: 'because' }],
    });
    expect(
      await stores.test.query('select action, job_name, actor, reason from job_actions order by id limit 1'),
    ).toEqual([{ action: 'pause', job_name: 'job', actor: 'ops', reason: 'because' }]);
  });

  it.each(['pause', 'disable'])('lets what waits wait, also when it was seen before: %s', async (hold) => {
    await manual.add(A_RUN, OPS);
    const [seen] = await stores.reaper.waiting([KNOWN], 10);
    await (hold === 'pause' ? pauses.pause('job', null, OPS) : pauses.setEnabled('job', false, OPS));
    expect(await stores.reaper.waiting([KNOWN], 10)).toEqual([]);
    expect(await stores.reaper.outlook(['job'])).toMatchObject({ nextAttempt: null });
    expect(
      (await stores.claims.claimWaiting([{ ...seen!, overlap: 'forbid', leaseMs: 1_000, flag: 'exports' }], 'B'))
        .answers,
    ).toEqual([]);
    await (hold === 'pause' ? pauses.resume('job', OPS) : pauses.setEnabled('job', true, OPS));
    expect(await claimWaiting()).toHaveLength(1);
  });

  it('that will run out by itself wakes up whoever could start what waits: nobody is told then', async () => {
    await manual.add(A_RUN, OPS);
    const until = secondsAgo(-600);
    await pauses.pause('job', until, OPS);
    expect(await stores.reaper.outlook(['job'])).toMatchObject({ nextAttempt: until });
    await pauses.setEnabled('job', false, OPS);
    expect(await stores.reaper.outlook(['job'])).toMatchObject({ nextAttempt: null });
  });

  it('that has run out holds back nothing that waits', async () => {
    await manual.add(A_RUN, OPS);
    await stores.test.query(
      `update job_schedule set paused_at = now() - interval '1 hour', paused_until = now() + interval '1 hour'`,
    );
    expect(await claimWaiting()).toEqual([]);
    await stores.test.query(`update job_schedule set paused_until = now() - interval '1 minute'`);
    expect(await claimWaiting()).toHaveLength(1);
  });

  it('may end by itself, and never in the past', async () => {
    const until = new Date(Date.now() + 3_600_000);
    expect((await pauses.pause('job', until, OPS)).until).toEqual(until);
    await expect(pauses.pause('job', secondsAgo(1), OPS)).rejects.toThrow('is over already');
    expect(await actions()).toEqual(['pause']);
  });

  it('of a job that is off is another thing', async () => {
    expect([await pauses.setEnabled('job', false, OPS), await pauses.setEnabled('job', false, OPS)]).toEqual([
      true,
      false,
    ]);
    expect(await claim(0)).toMatchObject({ reason: 'disabled' });
    expect(await pauses.setEnabled('job', true, OPS)).toBe(true);
  });

  it('of a job that is not there, or has another name, is refused and not kept', async () => {
    await expect(pauses.pause('nobody', null, OPS)).rejects.toThrow('There is no job "nobody".');
    await expect(pauses.pause('jbo', null, OPS)).rejects.toThrow('There is no job "jbo"; did you mean "job"?');
    await stores.test.query(`update job_schedule set yields_to = 'new-name'`);
    await expect(pauses.resume('job', OPS)).rejects.toThrow('is decided under the name "new-name"');
    expect(await actions()).toEqual([]);
  });
});

describe('an override', () => {
  const OTHER = '*/7 * * * * *';
  const override = () =>
    overrides.override('job', (stored) => compileSchedule(OTHER, stored.timeZone, 'job', stored.calendar), OPS);
  const stored = async (name = 'job') => {
    const [row] = await stores.test.query(
      'select cron, overridden_by, revision::integer from job_schedule where name = $1',
      [name],
    );
    return row;
  };
  const starts = (instanceId: string, job: JobDefinition) =>
    stores.schedules.declare([job], { instanceId, aliveMs: 60_000, jobs: [job], handlers: [] });

  it('holds from now on, whatever is deployed, and what it replaces is recorded', async () => {
    await stores.test.query(`update job_schedule set effective_from = $1, decided_until = $1`, [secondsAgo(30)]);
    await override();
    expect(await stored()).toMatchObject({ cron: OTHER, overridden_by: 'ops' });
    expect(await runs()).toMatchObject([{ status: 'skipped', reason: 'superseded by an edit' }]);
    for (const job of [JOB, aJob('job', '*/15 * * * * *')]) {
      await starts('A', job);
      expect(await stores.takeOvers.takeOver([job], 'A')).toEqual([]);
    }
    expect(await stored()).toMatchObject({ cron: OTHER });
    expect(await claim(500)).toMatchObject({ verdict: 'outdated' });
  });

  it('goes along with a new name', async () => {
    await stores.test.query('update job_schedule set decided_until = now()');
    await override();
    await manual.add(A_RUN, OPS);
    await stores.test.query('update job_schedule set decided_until = $1', [secondsAgo(30)]);
    const renamed = aJob('new-name', '* * * * * *', { previously: ['job'] });
    await starts('A', renamed);
    expect(await stores.takeOvers.takeOver([renamed], 'A')).toHaveLength(2);
    expect(await stored('new-name')).toMatchObject({ cron: OTHER, overridden_by: 'ops' });
    // Its occurrences go on: nothing was edited.
    expect(await stores.test.query('select decided_until from job_schedule')).toEqual([
      { decided_until: secondsAgo(30) },
      { decided_until: secondsAgo(30) },
    ]);
    // What somebody asked for is no occurrence that the new name could meet again.
    expect(await stores.test.query(`select from job_runs where job_name = 'new-name'`)).toEqual([]);
  });

  it('ends when it is cleared: a declaration takes over again', async () => {
    await starts('A', JOB);
    await override();
    expect([await overrides.clear('job', OPS), await overrides.clear('job', OPS)]).toEqual([true, false]);
    expect(await stores.takeOvers.takeOver([JOB], 'A')).toMatchObject([{ cron: '* * * * * *', overridden: false }]);
    expect(await actions()).toEqual(['override', 'clear-override', 'clear-override']);
  });

  it('leaves a job made at run time to its own way', async () => {
    await stores.test.query(`update job_schedule set handler = 'h', options = '{}'`);
    await expect(override()).rejects.toThrow('JobRegistry.update');
  });
});

describe('days that are left out', () => {
  const HOLIDAY = aJob('job', '* * * * * *', {
    schedule: compileSchedule('* * * * * *', 'UTC', 'job', '{"exclude":["2030-12-25"]}'),
  });
  const { calendar } = HOLIDAY.schedule;

  it('are part of the schedule: of two versions one holds, in claims, catch-ups and watermarks', async () => {
    await stores.schedules.declare([JOB], { instanceId: 'old', aliveMs: 60_000, jobs: [JOB], handlers: [] });
    await stores.schedules.declare([HOLIDAY], { instanceId: 'new', aliveMs: 60_000, jobs: [HOLIDAY], handlers: [] });
    const verdicts = async () => [(await claim(41)).verdict, (await claim(42, { calendar })).verdict];
    const decides = (job: JobDefinition) =>
      stores.catchUps.decide(job, Date.now(), ({ from }) => ({ run: [], record: [], decidedUntil: from }));
    expect(await stores.takeOvers.takeOver([HOLIDAY], 'new')).toEqual([]);
    expect(await verdicts()).toEqual(['claimed', 'outdated']);
    expect(await decides(HOLIDAY)).toBe('outdated');
    await stores.instances.leave('old');
    expect(await stores.takeOvers.takeOver([HOLIDAY], 'new')).toMatchObject([{ calendar }]);
    await stores.test.query('delete from job_runs');
    await stores.test.query(`update job_schedule set decided_until = '2000-01-01'`);
    expect(await verdicts()).toEqual(['outdated', 'claimed']);
    expect(await decides(JOB)).toBe('outdated');
    const before = await stores.test.query('select decided_until from job_schedule');
    await stores.schedules.remember([{ job: JOB, decidedUntil: Date.now() + 60_000 }]);
    expect(await stores.test.query('select decided_until from job_schedule')).toEqual(before);
    await stores.schedules.remember([{ job: HOLIDAY, decidedUntil: Date.now() + 60_000 }]);
    expect(await stores.test.query('select decided_until from job_schedule')).not.toEqual(before);
    // Somebody who still declares it holds it.
    await stores.schedules.declare([JOB], { instanceId: 'back', aliveMs: 60_000, jobs: [JOB], handlers: [] });
    expect(await stores.takeOvers.takeOver([JOB], 'back')).toEqual([]);
  });
});

describe('a flag', () => {
  it('that nobody has set is on; turned off, the very next claim sees it', async () => {
    expect(await claim(3)).toMatchObject({ verdict: 'claimed' });
    await stores.test.query(`update job_runs set status = 'done'`);
    await flags.set('exports', false, OPS);
    expect(await claim(2)).toMatchObject({ verdict: 'skipped', reason: 'flag off: exports' });
    expect(await claim(2, { flag: null, overlap: 'allow' })).toMatchObject({ verdict: 'taken' });
    expect(await claim(5, { flag: null, overlap: 'allow' })).toMatchObject({ verdict: 'claimed' });
    await flags.set('exports', true, OPS);
    expect(await claim(1, { overlap: 'allow' })).toMatchObject({ verdict: 'claimed' });
  });

  it('that the application says is off is off, for what is due and for what waits', async () => {
    expect(await claim(2, { off: 'flag off: exports (its provider failed)' })).toMatchObject({
      verdict: 'skipped',
      reason: 'flag off: exports (its provider failed)',
    });
    await manual.add(A_RUN, OPS);
    expect(await claimWaiting({ off: 'flag off: exports' })).toEqual([]);
    expect(await claimWaiting()).toMatchObject([{ verdict: 'claimed' }]);
  });

  it('turned off lets what waits wait, also when it was seen before', async () => {
    await manual.add(A_RUN, OPS);
    const [seen] = await stores.reaper.waiting([KNOWN], 10);
    await flags.set('exports', false, OPS);
    expect(await stores.reaper.waiting([KNOWN], 10)).toEqual([]);
    expect(await stores.reaper.outlook(['job'])).toMatchObject({ nextAttempt: null });
    expect(
      (await stores.claims.claimWaiting([{ ...seen!, overlap: 'forbid', leaseMs: 1_000, flag: 'exports' }], 'B'))
        .answers,
    ).toEqual([]);
    await flags.set('exports', true, OPS);
    expect(await claimWaiting()).toHaveLength(1);
  });

  it('is listed with the jobs that name it, and with who changed it', async () => {
    await flags.set('other', false, OPS);
    expect(await flags.list()).toMatchObject([
      { name: 'exports', onInTable: true, changedBy: null, jobs: ['job'] },
      { name: 'other', onInTable: false, changedBy: 'ops', reason: 'because', jobs: [] },
    ]);
    expect(await stores.test.query('select action, details from job_actions')).toEqual([
      { action: 'set-flag', details: { flag: 'other', on: false } },
    ]);
  });

  it('that is off is told at each look to whoever asks', async () => {
    await flags.set('exports', false, OPS);
    const look = (asked: string[]) =>
      stores.schedules.lookIn({ instanceId: 'A', aliveMs: 1, jobs: [], handlers: [] }, 0, [], asked);
    expect((await look(['exports', 'other'])).flagsOff).toEqual(['exports']);
    expect((await look([])).flagsOff).toEqual([]);
  });
});

describe('skipping ahead', () => {
  const YEARLY = compileSchedule('0 0 1 1 *', 'UTC');
  const skip = (count: number) => skips.skip('job', (_, now) => YEARLY.between(now, Infinity, count), OPS);

  it('writes the rows, also into months that have no partition yet; asked again, it names the same ones', async () => {
    const fireTimes = await skip(2);
    expect(fireTimes).toHaveLength(2);
    expect(await skip(2)).toEqual(fireTimes);
    expect(await runs()).toMatchObject(
      fireTimes.map((fire_time) => ({
        fire_time,
        status: 'skipped',
        reason: 'skipped by ops: because',
        requested_by: 'ops',
      })),
    );
    expect(await actions()).toEqual(['skip', 'skip']);
  });

  it('can be undone until the time has come, and only what an operator skipped', async () => {
    const [next] = await skip(1);
    await skips.unskip('job', next!, OPS);
    expect(await runs()).toEqual([]);
    await expect(skips.unskip('job', next!, OPS)).rejects.toThrow('no operator skipped it');
    await stores.test.query(
      `insert into job_runs (job_name, fire_time, status, trigger, reason, requested_by) values ('job', $1, 'skipped', 'schedule', 'skipped by ops', 'ops')`,
      [secondsAgo(1)],
    );
    await expect(skips.unskip('job', secondsAgo(1), OPS)).rejects.toThrow('its time has come');
    expect(await claim(1)).toMatchObject({ verdict: 'taken' });
    expect(await actions()).toEqual(['skip', 'unskip']);
  });

  it('names none whose time has come since it looked: that one runs', async () => {
    const [next] = YEARLY.between(Date.now(), Infinity, 1);
    let looks = 0;
    // The first time it stands still after its look, until what it found has come and runs.
    const skipped = await skips.skip('job', () => [++looks === 1 ? secondsAgo(1).getTime() : next!], OPS);
    expect(skipped).toEqual([new Date(next!)]);
    expect(await claim(1)).toMatchObject({ verdict: 'claimed' });
    expect(await actions()).toEqual(['skip']);
  });
});

const A_RUN: ManualRun = { jobName: 'job', overlap: null, data: undefined, flagOff: null };

describe('run now', () => {
  it('has an identity that no occurrence has, and is started as what waits', async () => {
    const fireTime = await manual.add({ ...A_RUN, data: { month: 3 } }, OPS);
    expect(fireTime.getTime() % 1_000).not.toBe(0);
    expect(await claimWaiting()).toMatchObject([
      { verdict: 'claimed', fireTime, attempt: 1, trigger: 'manual', data: { month: 3 } },
    ]);
    expect(await runs()).toMatchObject([{ trigger: 'manual', requested_by: 'ops', status: 'running' }]);
  });

  it('B38: a double click on two replicas gives one run', async () => {
    const clicks = await Promise.allSettled(Array.from({ length: 8 }, () => manual.add(A_RUN, OPS)));
    expect(clicks.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    expect(String((clicks.find(({ status }) => status === 'rejected') as PromiseRejectedResult).reason)).toContain(
      'waits already',
    );
    expect(await runs()).toHaveLength(1);
    expect(await actions()).toEqual(['run-now']);
  });

  it('is refused while a run is under way, unless it is to wait', async () => {
    expect(await claim(1)).toMatchObject({ verdict: 'claimed' });
    await expect(manual.add(A_RUN, OPS)).rejects.toThrow('a run of it is under way on A');
    await manual.add({ ...A_RUN, overlap: 'queue' }, OPS);
    await manual.add({ ...A_RUN, overlap: 'queue' }, OPS);
    expect(new Set((await runs()).map(({ fire_time }) => Number(fire_time))).size).toBe(3);
    expect(await claimWaiting()).toEqual([]);
    await stores.test.query(`update job_runs set status = 'done' where status = 'running'`);
    expect(await claimWaiting()).toHaveLength(1);
    expect(await claimWaiting()).toEqual([]);
  });

  it('runs beside what is under way when whoever asks says so, however often', async () => {
    expect(await claim(1)).toMatchObject({ verdict: 'claimed' });
    for (const _ of [1, 2]) await manual.add({ ...A_RUN, overlap: 'allow' }, OPS);
    expect(await claimWaiting()).toMatchObject([
      { verdict: 'claimed', beside: true },
      { verdict: 'claimed', beside: true },
    ]);
    // What is due is not held up by them either.
    await stores.test.query(`update job_runs set status = 'done' where not beside`);
    expect(await claim(0)).toMatchObject({ verdict: 'claimed' });
  });

  it('B38: waits for a claim that is being written, and is refused because of it', async () => {
    const gate = await InsertGate.shut(stores.test, 'A');
    const claimed = claim(1);
    let asked: Promise<Date>;
    try {
      await gate.reached();
      asked = manual.add(A_RUN, OPS);
      asked.catch(() => {});
      await blocked(stores.test, 2);
    } finally {
      await gate.open();
    }
    expect(await claimed).toMatchObject({ verdict: 'claimed' });
    await expect(asked).rejects.toThrow('under way on A');
    await stores.test.query('drop trigger gate on job_runs');
  });

  it('takes the next free millisecond, and never that of an occurrence', async () => {
    const insert = async () => {
      const [row] = await stores.test.query<{ place: Date }>(
        `insert into job_runs (job_name, fire_time, status, trigger, next_attempt_at)
         values ('job', run_place_1('job', $1), 'queued', 'manual', now())
         returning fire_time as place`,
        [secondsAgo(5)],
      );
      return row!.place;
    };
    const places = [await insert(), await insert(), await insert()].map(
      (fireTime) => fireTime.getTime() - secondsAgo(5).getTime(),
    );
    expect(places).toEqual([1, 2, 3]);
  });

  it('B38: at no time two at once, though one is replayed while another is asked for', async () => {
    await stores.test.query(
      `insert into job_runs (job_name, fire_time, status, trigger, attempt, releases, next_attempt_at) values ('job', $1, 'queued', 'schedule', 3, 3, now())`,
      [secondsAgo(100)],
    );
    await manual.add(A_RUN, OPS);
    const started = await Promise.all([claimWaiting(), claimWaiting(), claimWaiting()]);
    expect(started.flat()).toHaveLength(1);
  });

  it('goes by the policy of the job', async () => {
    await stores.schedules.declare([{ ...JOB, overlap: 'allow' }], null);
    await Promise.all([manual.add(A_RUN, OPS), manual.add(A_RUN, OPS), manual.add(A_RUN, OPS)]);
    expect(await runs()).toHaveLength(3);
  });

  it.each([
    ['disabled', () => pauses.setEnabled('job', false, OPS)],
    ['paused', () => pauses.pause('job', null, OPS)],
    ['its flag exports is off', () => flags.set('exports', false, OPS)],
  ])('is refused where the job is held back: %s', async (reason, hold) => {
    await hold();
    await expect(manual.add({ ...A_RUN, overlap: 'queue' }, OPS)).rejects.toThrow(reason);
    expect(await runs()).toEqual([]);
  });

  it('is the only row with a part of a second, and never has finer ones', async () => {
    const insert = (trigger: string, time: string) =>
      stores.test.query(
        `insert into job_runs (job_name, fire_time, status, trigger, reason) values ('job', date_trunc('second', now()) + interval '${time}', 'skipped', $1, 'x')`,
        [trigger],
      );
    await expect(insert('schedule', '5 ms')).rejects.toMatchObject({ code: '23514' });
    await expect(insert('manual', '5001 us')).rejects.toMatchObject({ code: '23514' });
    await expect(insert('manual', '0')).rejects.toMatchObject({ code: '23514' });
    await insert('manual', '5 ms');
  });
});

describe('a cancel', () => {
  const key = (secondsBack: number) => ({ jobName: 'job', fireTime: secondsAgo(secondsBack) });
  const look = (instanceId: string) => stores.schedules.lookIn({ instanceId, aliveMs: 1, jobs: [], handlers: [] }, 0);

  it('ends what waits at once', async () => {
    const fireTime = await manual.add(A_RUN, OPS);
    expect(await cancels.cancel({ jobName: 'job', fireTime }, OPS)).toBe('cancelled');
    expect(await runs()).toMatchObject([
      { status: 'cancelled', reason: 'cancelled by ops: because', next_attempt_at: null },
    ]);
    expect(await claimWaiting()).toEqual([]);
  });

  it('of what runs reaches its owner, and nobody else', async () => {
    await claim(1);
    expect(await cancels.cancel(key(1), OPS)).toBe('requested');
    expect((await look('A')).cancels).toEqual([{ ...key(1), attempt: 1, reason: 'cancelled by ops: because' }]);
    expect((await look('B')).cancels).toEqual([]);
    expect(await runs()).toMatchObject([{ status: 'running' }]);
  });

  it('of what runs ends as cancelled, when the lease runs out', async () => {
    await claim(1);
    await cancels.cancel(key(1), OPS);
    await stores.test.query(`update job_runs set lease_until = now() - interval '1 second'`);
    expect(await stores.reaper.reap([KNOWN], 10)).toMatchObject([{ status: 'cancelled' }]);
    expect(await runs()).toMatchObject([
      { status: 'cancelled', reason: 'cancelled by ops: because; the lease of A ran out', next_attempt_at: null },
    ]);
  });

  it('of what runs ends as cancelled, also when nobody knows the job any more', async () => {
    await claim(1);
    await cancels.cancel(key(1), OPS);
    await stores.test.query(`update job_runs set lease_until = now() - interval '1 second'`);
    await stores.reaper.orphanRunsOf(['job']);
    expect(await runs()).toMatchObject([{ status: 'cancelled', next_attempt_at: null }]);
  });

  it.each([
    ['failed', 1_000],
    ['queued', 0],
  ] as const)('that comes before the run was to be tried again: %s', async (status, retryInMs) => {
    await claim(1);
    await cancels.cancel(key(1), OPS);
    expect(
      await stores.runs.end(aRun(key(1)), { status, reason: null, error: null, retryInMs, releases: 0 }),
    ).toMatchObject({ status: 'cancelled' });
    expect(await runs()).toMatchObject([
      { status: 'cancelled', reason: 'cancelled by ops: because', next_attempt_at: null },
    ]);
  });

  it('that comes too late for the work leaves it done', async () => {
    await claim(1);
    await cancels.cancel(key(1), OPS);
    expect(await stores.runs.complete(aRun(key(1)))).toMatchObject({ status: 'done' });
    expect(await runs()).toMatchObject([{ status: 'done' }]);
    await expect(cancels.cancel(key(1), OPS)).rejects.toThrow('it is done already');
    await expect(cancels.cancel(key(9), OPS)).rejects.toThrow('there is no such run');
    expect(await actions()).toEqual(['cancel']);
  });

  it('of a former attempt does not end the next one', async () => {
    await claim(1);
    await cancels.cancel(key(1), OPS);
    await stores.test.query(`update job_runs set status = 'queued', next_attempt_at = now()`);
    expect(await claimWaiting()).toMatchObject([{ attempt: 2 }]);
    expect((await look('B')).cancels).toEqual([]);
  });
});

describe('what is explained of a run that waits', () => {
  const fireTime = new Date(secondsAgo(20).getTime() + 5);
  const facts = () => new ExplainStore(stores.database).facts({ jobName: 'job', fireTime });
  const waits = (beside = false) =>
    stores.test.query(
      `insert into job_runs (job_name, fire_time, status, trigger, beside, next_attempt_at) values ('job', $1, 'queued', 'manual', $2, now())`,
      [fireTime, beside],
    );
  const declare = (changes: Partial<JobDefinition>) =>
    stores.test.query('update job_schedule set policies = $1', [
      JSON.stringify(storedPolicies(aJob('job', '* * * * * *', changes))),
    ]);

  it('is what is in its way, and nothing that it may run beside', async () => {
    await claim(30);
    await waits();
    expect((await facts()).inTheWay).toMatchObject({ instanceId: 'A' });
    for (const [parallel, inTheWay] of [
      [null, null],
      [2, null],
      [1, { instanceId: 'A' }],
    ] as const) {
      await declare({ overlap: 'allow', parallel });
      const found = await facts();
      if (inTheWay) expect(found.inTheWay).toMatchObject(inTheWay);
      else expect(found.inTheWay).toBeNull();
    }
    await declare({});
    await stores.test.query(`delete from job_runs where status = 'queued'`);
    await waits(true);
    expect((await facts()).inTheWay).toBeNull();
  });

  it('is its concurrency group, when that is full', async () => {
    await declare({ concurrencyGroup: { name: 'reports', limit: 1 } });
    await waits();
    expect((await facts()).job?.fullGroup).toBeNull();
    await stores.claims.claimDue([aDue('other', secondsAgo(30), { group: 'reports', groupLimit: 1 })], 'A');
    const found = await facts();
    expect(found.job?.fullGroup).toEqual({ name: 'reports', limit: 1 });
    // The instances that know the job are another question.
    const { why } = explanationOf({ ...found, schedule: null, job: { ...found.job!, instances: 1 } });
    expect(why).toContain('its concurrency group "reports" has 1 runs under way');
  });
});
