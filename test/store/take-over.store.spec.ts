import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { JobDefinition } from '../../lib/options/job-definition.js';
import { planCatchUp } from '../../lib/catch-up/catch-up.js';
import { inTransaction } from '../../lib/database/transactions.js';
import { aDue } from '../support/due.js';
import { blocked } from '../support/gate.js';
import { aJob } from '../support/job.js';
import { insertRun } from '../support/run-rows.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;
beforeAll(async () => {
  stores = await openStores();
});
afterAll(() => stores.close());
beforeEach(async () => {
  for (const table of ['job_runs', 'job_schedule', 'job_instances']) await stores.test.query(`delete from ${table}`);
});

const OLD = aJob('job', '*/10 * * * * *', { lateAfterMs: 5_000 });
const NEW = aJob('job', '*/15 * * * * *', { lateAfterMs: 5_000 });
const RENAMED = aJob('new-name', '*/10 * * * * *', { previously: ['older', 'job'], lateAfterMs: 5_000 });

/** An instance starts, and is taken to live for a minute. */
const starts = (instanceId: string, jobs: JobDefinition[], aliveMs = 60_000) =>
  stores.schedules.declare(jobs, { instanceId, aliveMs, jobs, handlers: [] });
const takeOver = (instanceId: string, job = NEW) => stores.takeOvers.takeOver([job], instanceId);

async function stored(name = 'job') {
  const [row] = await stores.test.query<{
    cron: string;
    yields_to: string | null;
    decided_until: Date;
    effective_from: Date;
    paused_by: string | null;
    revision: string;
  }>('select cron, yields_to, decided_until, effective_from, paused_by, revision from job_schedule where name = $1', [
    name,
  ]);
  return row!;
}

const decidedSince = (seconds: number, name = 'job') =>
  stores.test.query('update job_schedule set effective_from = $1, decided_until = $1 where name = $2', [
    secondsAgo(seconds),
    name,
  ]);

describe('an active backfill of a job that is renamed', () => {
  it('goes on under the new name, and back with a rollback; one that is over stays what it was', async () => {
    const asked = {
      jobName: 'job',
      from: secondsAgo(100),
      to: secondsAgo(50),
      maxConcurrent: 1,
      beside: false,
      replay: false,
      total: 5,
      requestedBy: null,
      reason: null,
    };
    await stores.test.query('delete from job_backfills');
    await starts('old-1', [OLD]);
    const [active, over] = [await stores.backfills.create(asked), await stores.backfills.create(asked)];
    await stores.cancels.cancel(over, 'job', null, null);
    await stores.instances.leave('old-1');
    await starts('new-1', [RENAMED]);
    expect(await takeOver('new-1', RENAMED)).not.toEqual([]);
    expect(await stores.backfills.active(['new-name'])).toEqual([{ id: active, jobName: 'new-name' }]);
    expect((await stores.backfills.find(over))!.jobName).toBe('job');
    expect((await stores.feeds.feed(active, RENAMED))!.queued).toHaveLength(1);
    await stores.instances.leave('new-1');
    await starts('old-2', [OLD]);
    await takeOver('old-2', OLD);
    expect(await stores.backfills.active(['job'])).toEqual([{ id: active, jobName: 'job' }]);
  });
});

describe('two versions of an expression', () => {
  it('the one that was there holds while a live instance declares it, and changes once when the last is gone', async () => {
    await starts('old-1', [OLD]);
    await starts('old-2', [OLD]);
    await starts('new-1', [NEW]);
    await starts('new-2', [NEW]);
    expect(await takeOver('new-1')).toEqual([]);
    await stores.instances.leave('old-1');
    expect(await takeOver('new-1')).toEqual([]);
    expect(await stored()).toMatchObject({ cron: OLD.schedule.expression });
    await stores.instances.leave('old-2');
    const changes = await Promise.all([takeOver('new-1'), takeOver('new-2')]);
    expect(changes.flat()).toMatchObject([{ name: 'job', cron: NEW.schedule.expression }]);
    expect((await stored()).decided_until.getTime()).toBeGreaterThanOrEqual(secondsAgo(0).getTime());
  });

  it('a restart of the old version in between changes nothing, nor does one when the new one holds', async () => {
    await starts('old-1', [OLD]);
    await starts('new-1', [NEW]);
    await stores.instances.leave('old-1');
    await starts('old-2', [OLD]);
    expect(await takeOver('new-1')).toEqual([]);
    await stores.instances.leave('old-2');
    expect(await takeOver('new-1')).toHaveLength(1);
    await starts('old-3', [OLD]);
    expect(await takeOver('old-3', OLD)).toEqual([]);
    await stores.instances.leave('new-1');
    expect(await takeOver('old-3', OLD)).toMatchObject([{ cron: OLD.schedule.expression }]);
  });

  it('an instance that was killed, or frozen, holds nothing when its time is over', async () => {
    await starts('old-1', [OLD], 1);
    await starts('new-1', [NEW]);
    expect(await takeOver('new-1')).toHaveLength(1);
  });

  it('one that has it in another zone does not hold it', async () => {
    await starts('old-1', [
      aJob('job', OLD.schedule.expression, { schedule: { ...OLD.schedule, timeZone: 'Europe/Berlin' } }),
    ]);
    await stores.test.query(`update job_schedule set time_zone = 'UTC'`);
    await starts('new-1', [NEW]);
    expect(await takeOver('new-1')).toHaveLength(1);
  });

  it('never fire both grids: what is not of the stored one cannot be claimed', async () => {
    await starts('old-1', [OLD]);
    await starts('new-1', [NEW]);
    await decidedSince(60);
    const verdict = async (job: JobDefinition, seconds: number) => {
      const { expression: cron } = job.schedule;
      return (await stores.claims.claimDue([aDue('job', secondsAgo(seconds), { cron, overlap: 'allow' })], 'A'))
        .answers[0]!.verdict;
    };
    expect([await verdict(NEW, 20), await verdict(OLD, 21)]).toEqual(['outdated', 'claimed']);
    await stores.instances.leave('old-1');
    await takeOver('new-1');
    await stores.test.query('delete from job_runs');
    await decidedSince(60);
    expect([await verdict(NEW, 22), await verdict(OLD, 23)]).toEqual(['claimed', 'outdated']);
    expect(await stores.test.query('select from job_runs')).toHaveLength(1);
  });

  it('G5: what the old one left undecided is recorded, in one row, and nothing of it is run', async () => {
    await starts('old-1', [OLD]);
    await decidedSince(60);
    await stores.instances.leave('old-1');
    await starts('new-1', [NEW]);
    await takeOver('new-1');
    const [row] = await stores.test.query<{ reason: string; status: string; gap_count: number }>(
      'select reason, status, gap_count from job_runs',
    );
    expect(row).toMatchObject({ reason: 'superseded by an edit', status: 'skipped' });
    expect(row!.gap_count).toBeGreaterThanOrEqual(6);
  });

  it('waits for a catch-up that is being written, and leaves no occurrence with two decisions', async () => {
    await starts('old-1', [{ ...OLD, missed: 'all' }]);
    await decidedSince(60);
    await stores.instances.leave('old-1');
    await starts('new-1', [NEW]);
    let changes: Promise<unknown[]> = Promise.resolve([]);
    await inTransaction(stores.database.coordination, async (query) => {
      await query(`select job_lock_all_1(array['job'])`);
      await query(`select from job_schedule for no key update`);
      changes = takeOver('new-1');
      await blocked(stores.test, 1);
      await query(
        `insert into job_runs (job_name, fire_time, status, trigger, next_attempt_at) values ('job', $1, 'queued', 'catch-up', now())`,
        [new Date(Math.floor(secondsAgo(20).getTime() / 10_000) * 10_000)],
      );
    });
    expect(await changes).toHaveLength(1);
    const [gap] = await stores.test.query<{ gap_count: number; spanned: number }>(
      `select gap_count, extract(epoch from fire_time - gap_from)::integer / 10 + 1 as spanned from job_runs where status = 'skipped'`,
    );
    expect(gap!.gap_count).toBe(gap!.spanned - 1);
    expect(
      await stores.catchUps.decide(OLD, secondsAgo(60).getTime(), (seen) => planCatchUp(OLD, seen, seen.decided)),
    ).toBe('outdated');
  });

  it('a stored expression that nobody can read is replaced, too', async () => {
    await starts('old-1', [OLD]);
    await stores.test.query(`update job_schedule set cron = 'never ever'`);
    await starts('new-1', [NEW]);
    expect(await takeOver('new-1')).toMatchObject([{ cron: NEW.schedule.expression }]);
  });

  it('takes over hundreds in one go', async () => {
    const named = (index: number, expression: string) => aJob(`job-${index}`, expression);
    const indexes = Array.from({ length: 450 }, (_, index) => index);
    await starts(
      'old-1',
      indexes.map((index) => named(index, '0 3 * * *')),
    );
    await stores.instances.leave('old-1');
    const edited = indexes.map((index) => named(index, '0 4 * * *'));
    await starts('new-1', edited);
    expect(await stores.takeOvers.takeOver(edited, 'new-1')).toHaveLength(450);
  });
});

describe('a renamed job', () => {
  it('begins when no live instance declares the old name, where that one was, with its pauses', async () => {
    await starts('old-1', [OLD]);
    await decidedSince(40);
    await stores.test.query(`update job_schedule set paused_at = now(), paused_by = 'ops'`);
    const fireTime = new Date(Math.floor(secondsAgo(10).getTime() / 10_000) * 10_000);
    await insertRun(stores.test, 'job', fireTime, 'done');
    const [decided] = await stores.test.query<{ fire_time: Date }>(`select fire_time from job_runs`);
    await starts('new-1', [RENAMED]);
    expect(await stored('new-name')).toMatchObject({ yields_to: 'job' });
    expect(await takeOver('new-1', RENAMED)).toEqual([]);
    const early = await stores.claims.claimDue(
      [aDue('new-name', secondsAgo(1), { cron: OLD.schedule.expression })],
      'new-1',
    );
    expect(early.answers).toMatchObject([{ verdict: 'outdated' }]);
    await stores.instances.leave('old-1');
    expect((await takeOver('new-1', RENAMED)).map(({ name, yieldsTo }) => [name, yieldsTo]).sort()).toEqual([
      ['job', 'new-name'],
      ['new-name', null],
    ]);
    expect(await stored('new-name')).toMatchObject({
      decided_until: secondsAgo(40),
      effective_from: secondsAgo(40),
      paused_by: 'ops',
    });
    expect(
      await stores.test.query(`select fire_time, status, reason from job_runs where job_name = 'new-name'`),
    ).toEqual([{ fire_time: decided!.fire_time, status: 'skipped', reason: 'decided as job' }]);
  });

  it('that was disabled is disabled since then: what came due meanwhile is not missed', async () => {
    await starts('old-1', [OLD]);
    await stores.test.query('update job_schedule set enabled = false');
    await stores.test.query('update job_schedule set disabled_at = $1', [secondsAgo(300)]);
    await stores.instances.leave('old-1');
    await starts('new-1', [RENAMED]);
    await takeOver('new-1', RENAMED);
    expect(await stores.test.query(`select enabled, disabled_at from job_schedule where name = 'new-name'`)).toEqual([
      { enabled: false, disabled_at: secondsAgo(300) },
    ]);
  });

  it('goes back to its old name in a rollback, in the same way', async () => {
    await starts('old-1', [OLD]);
    await stores.instances.leave('old-1');
    await starts('new-1', [RENAMED]);
    await takeOver('new-1', RENAMED);
    await starts('old-2', [OLD]);
    expect(await takeOver('old-2', OLD)).toEqual([]);
    await stores.instances.leave('new-1');
    expect(await takeOver('old-2', OLD)).toHaveLength(2);
    expect(await stored('job')).toMatchObject({ yields_to: null });
    expect(await stored('new-name')).toMatchObject({ yields_to: 'job' });
  });

  it('with another expression has no past, and what the old one left is recorded under its name', async () => {
    await starts('old-1', [OLD]);
    await decidedSince(60);
    await stores.instances.leave('old-1');
    const both = aJob('new-name', '*/15 * * * * *', { previously: ['job'] });
    await starts('new-1', [both]);
    await takeOver('new-1', both);
    expect((await stored('new-name')).decided_until.getTime()).toBeGreaterThanOrEqual(secondsAgo(0).getTime());
    expect(await stores.test.query('select job_name, reason from job_runs')).toEqual([
      { job_name: 'job', reason: 'superseded by an edit' },
    ]);
  });

  it('may name its former name later: it goes on where that one was, and what it ran since is decided', async () => {
    await starts('old-1', [OLD]);
    await decidedSince(300);
    await stores.instances.leave('old-1');
    const nameless = aJob('new-name', OLD.schedule.expression, { lateAfterMs: 5_000 });
    await starts('new-1', [nameless]);
    await decidedSince(60, 'new-name');
    await stores.instances.leave('new-1');
    const { jobs } = await starts('new-2', [RENAMED]);
    expect(jobs).toMatchObject([{ name: 'new-name', yieldsTo: 'job' }]);
    await takeOver('new-2', RENAMED);
    expect(await stored('new-name')).toMatchObject({ yields_to: null, decided_until: secondsAgo(300) });
    expect(await stored('job')).toMatchObject({ yields_to: 'new-name' });
    expect((await starts('new-3', [RENAMED])).jobs).toMatchObject([{ name: 'new-name', yieldsTo: null }]);
  });

  it('leaves its former name to a new job: that has no past, and the two do not take turns', async () => {
    await starts('old-1', [OLD]);
    await decidedSince(300);
    await stores.instances.leave('old-1');
    await starts('new-1', [RENAMED]);
    await takeOver('new-1', RENAMED);
    const before = await stored('new-name');
    const renamedLongAgo = aJob('new-name', OLD.schedule.expression);
    const reused = aJob('job', '*/20 * * * * *');
    await starts('next', [renamedLongAgo, reused]);
    expect(await stored('job')).toMatchObject({ yields_to: null });
    expect((await stored('job')).decided_until.getTime()).toBeGreaterThanOrEqual(secondsAgo(0).getTime());
    expect(await stores.takeOvers.takeOver([reused], 'next')).toMatchObject([
      { name: 'job', cron: '*/20 * * * * *', yieldsTo: null },
    ]);
    expect(await stores.takeOvers.takeOver([renamedLongAgo, reused], 'next')).toEqual([]);
    expect(await stored('new-name')).toEqual(before);
  });

  it('without a former name in the database is a new job', async () => {
    await starts('new-1', [RENAMED]);
    expect(await stored('new-name')).toMatchObject({ yields_to: null });
  });
});

describe('jobs that no live instance declares', () => {
  it('are known as such, and the runs of dead instances are not left running', async () => {
    await starts('old-1', [OLD, aJob('other', '0 3 * * *')]);
    await starts('new-1', [aJob('other', '0 3 * * *')]);
    expect(await stores.instances.unregistered()).toEqual([]);
    await decidedSince(60);
    await stores.claims.claimDue([aDue('job', secondsAgo(1), { cron: OLD.schedule.expression, leaseMs: 1 })], 'old-1');
    await stores.instances.leave('old-1');
    expect(await stores.instances.unregistered()).toEqual([
      { name: 'job', cron: OLD.schedule.expression, timeZone: 'UTC', handler: null },
    ]);
    await stores.reaper.orphanRunsOf(['job']);
    expect(await stores.test.query('select status from job_runs')).toEqual([{ status: 'orphaned' }]);
  });

  it('are not those that a live instance is about to take over', async () => {
    await starts('old-1', [OLD]);
    await starts('new-1', [RENAMED]);
    await stores.instances.leave('old-1');
    expect(await stores.instances.unregistered()).toEqual([]);
    await stores.instances.leave('new-1');
    expect(await stores.instances.unregistered()).toMatchObject([{ name: 'job' }]);
  });
});
