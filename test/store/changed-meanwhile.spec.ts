import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { JobDefinition } from '../../lib/options/job-definition.js';
import { planCatchUp } from '../../lib/catch-up/catch-up.js';
import { BackfillFeedStore } from '../../lib/catch-up/backfill-feed.service.js';
import { RunTimeJobStore, TakeOverStore } from '../../lib/jobs/schedule-changes.store.js';
import { OverrideStore } from '../../lib/operations/schedule-edits.service.js';
import { CatchUpStore } from '../../lib/catch-up/catch-up.service.js';
import { ComingBetween } from '../support/coming-between.js';
import { aDue } from '../support/due.js';
import { aJob } from '../support/job.js';
import { insertRun } from '../support/run-rows.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;
beforeAll(async () => {
  stores = await openStores();
});
afterAll(() => stores.close());
beforeEach(async () => {
  for (const table of ['job_runs', 'job_schedule', 'job_instances', 'job_backfills', 'job_actions'])
    await stores.test.query(`delete from ${table}`);
});

const OLD = aJob('job', '*/10 * * * * *', { missed: 'skip', lateAfterMs: 5_000 });
const NEW = aJob('job', '*/15 * * * * *', { lateAfterMs: 5_000 });
const BY = { by: 'ops', reason: null };

/** A moment at which the old schedule fires, this many occurrences ago. */
const fires = (occurrencesAgo: number) =>
  new Date(Math.floor(secondsAgo(0).getTime() / 10_000) * 10_000 - occurrencesAgo * 10_000);

async function registered(job: JobDefinition = OLD): Promise<void> {
  await stores.schedules.declare([job], { instanceId: 'old', aliveMs: 60_000, jobs: [job], handlers: [] });
  await stores.test.query('update job_schedule set effective_from = $1, decided_until = $1', [fires(10)]);
}

/** The first time something was planned, another replica claims an occurrence of it. */
const claiming = async (plans: number) => {
  if (plans > 1) return;
  const { answers } = await stores.claims.claimDue(
    [aDue('job', fires(4), { cron: OLD.schedule.expression, overlap: 'allow', parallel: null })],
    'other',
  );
  expect(answers).toMatchObject([{ verdict: 'claimed' }]);
};

/** The row of the gap, and that of the run, which does not count to it. */
async function expectOneDecisionEach(): Promise<void> {
  const rows = await stores.test.query<{ status: string; fire_time: Date; gap_count: number; spanned: number }>(
    `select status, fire_time, gap_count, extract(epoch from fire_time - gap_from)::integer / 10 + 1 as spanned from job_runs order by status`,
  );
  expect(rows.map(({ status }) => status)).toEqual(['running', 'skipped']);
  expect(rows[1]!.gap_count).toBe(rows[1]!.spanned - 1);
}

describe('an occurrence that is claimed between the plan of a change and its writing is run, and not counted as left out:', () => {
  it('an operator’s override', async () => {
    await registered();
    const between = new ComingBetween(stores.database, claiming);
    await new OverrideStore(stores.database, between).override('job', () => NEW.schedule, BY);
    expect(between.plans).toBe(2);
    await expectOneDecisionEach();
    expect(await stores.test.query('select action, actor from job_actions')).toEqual([
      { action: 'override', actor: 'ops' },
    ]);
  });

  it('an update of a job made at run time', async () => {
    const parts = { handler: 'reports', options: {}, data: undefined };
    await registered();
    await stores.test.query(`update job_schedule set handler = 'reports', options = '{}'`);
    const between = new ComingBetween(stores.database, claiming);
    await new RunTimeJobStore(stores.database, between).update('job', () => ({ job: NEW, parts }));
    expect(between.plans).toBe(2);
    await expectOneDecisionEach();
  });

  it('a take-over', async () => {
    await registered();
    await stores.instances.leave('old');
    const between = new ComingBetween(stores.database, claiming);
    expect(await new TakeOverStore(stores.database, between).takeOver([NEW], 'new')).toMatchObject([
      { cron: NEW.schedule.expression },
    ]);
    expect(between.plans).toBe(2);
    await expectOneDecisionEach();
  });

  it('a catch-up, which is tried again at the next look', async () => {
    await registered();
    const between = new ComingBetween(stores.database, claiming);
    const store = new CatchUpStore(stores.database, between);
    const decide = () => store.decide(OLD, fires(10).getTime(), (seen) => planCatchUp(OLD, seen, seen.decided));
    expect(await decide()).toBe('busy');
    expect(await stores.test.query(`select from job_runs where status = 'skipped'`)).toEqual([]);
    expect(await decide()).toMatchObject({ record: [{ reason: 'missed: skipped' }] });
    await expectOneDecisionEach();
  });
});

describe('a run that a person asks for between the plan of a change and its writing decides no occurrence, and leaves the plan as it is:', () => {
  const asking = async () => {
    const [asked] = await stores.test.query(`select * from run_now_1('job', 'allow', null, null, 'ops', null, null)`);
    expect(asked).toMatchObject({ verdict: 'added' });
  };

  it('an operator’s override', async () => {
    await registered();
    const between = new ComingBetween(stores.database, asking);
    await new OverrideStore(stores.database, between).override('job', () => NEW.schedule, BY);
    expect(between.plans).toBe(1);
  });

  it('a take-over', async () => {
    await registered();
    await stores.instances.leave('old');
    const between = new ComingBetween(stores.database, asking);
    expect(await new TakeOverStore(stores.database, between).takeOver([NEW], 'new')).toHaveLength(1);
    expect(between.plans).toBe(1);
  });

  it('a catch-up', async () => {
    await registered();
    // A manual run of the past, as one that was asked for before the look would be.
    const asked = () =>
      stores.test.query(
        `insert into job_runs (job_name, fire_time, status, trigger, next_attempt_at) values ('job', $1, 'queued', 'manual', now())`,
        [new Date(fires(4).getTime() + 1)],
      );
    const store = new CatchUpStore(stores.database, new ComingBetween(stores.database, asked));
    const decided = await store.decide(OLD, fires(10).getTime(), (seen) => planCatchUp(OLD, seen, seen.decided));
    expect(decided).toMatchObject({ record: [{ reason: 'missed: skipped' }] });
  });

  it('one that is there before is not counted either', async () => {
    await registered();
    await asking();
    const between = new ComingBetween(stores.database, () => Promise.resolve());
    await new OverrideStore(stores.database, between).override('job', () => NEW.schedule, BY);
    expect(between.plans).toBe(1);
  });
});

describe('a pass that feeds a backfill and is overtaken before it writes', () => {
  const asked = () =>
    stores.backfills.create({
      jobName: 'job',
      from: fires(5),
      to: fires(3),
      maxConcurrent: 100,
      beside: false,
      replay: false,
      total: 3,
      requestedBy: null,
      reason: null,
    });

  it('by a claim queues nothing, and leaves that occurrence alone at the next look', async () => {
    await registered();
    const feeds = new BackfillFeedStore(stores.database, new ComingBetween(stores.database, claiming));
    const id = await asked();
    expect(await feeds.feed(id, OLD)).toBeNull();
    expect(await stores.backfills.find(id)).toMatchObject({
      queued: 0,
      fed: 0,
      fedUntil: new Date(fires(5).getTime() - 1),
    });
    expect(await feeds.feed(id, OLD)).toMatchObject({ queued: [fires(5), fires(3)] });
    expect(await stores.backfills.find(id)).toMatchObject({ fed: 2, leftAlone: 1, fedUntil: fires(3) });
  });

  it('by whoever cancels the backfill queues nothing', async () => {
    await registered();
    const id = await asked();
    const feeds = new BackfillFeedStore(
      stores.database,
      new ComingBetween(stores.database, () => stores.cancels.cancel(id, 'job', 'ops', null)),
    );
    expect(await feeds.feed(id, OLD)).toBeNull();
    expect(await stores.test.query('select from job_runs')).toEqual([]);
  });

  it('by somebody who replays an occurrence that was to be run again queues nothing', async () => {
    await registered();
    await insertRun(stores.test, 'job', fires(4), 'skipped');
    const between = new ComingBetween(stores.database, (plans) =>
      stores.test.query(
        `update job_runs set status = 'queued', next_attempt_at = now(), finished_at = null where $1 = 1`,
        [plans],
      ),
    );
    const feeds = new BackfillFeedStore(stores.database, between);
    const id = await asked();
    expect(await feeds.feed(id, OLD)).toBeNull();
    expect(await stores.test.query('select fire_time, status, backfill_id from job_runs')).toEqual([
      { fire_time: fires(4), status: 'queued', backfill_id: null },
    ]);
    expect(await feeds.feed(id, OLD)).toMatchObject({ queued: [fires(5), fires(3)] });
  });
});

describe('a process that stands still between the plan of a change and its writing', () => {
  it('holds up nobody: others start, change the same job, and catch up', async () => {
    await registered();
    const between = new ComingBetween(stores.database, async (plans) => {
      if (plans > 1) return;
      await stores.schedules.declare([OLD, aJob('other', '* * * * *')], {
        instanceId: 'starts',
        aliveMs: 60_000,
        jobs: [],
        handlers: [],
      });
      await stores.catchUps.decide(OLD, fires(10).getTime(), (seen) => planCatchUp(OLD, seen, seen.decided));
      await new OverrideStore(stores.database, stores.partitions).override(
        'job',
        () => aJob('job', '0 4 * * *').schedule,
        BY,
      );
    });
    const before: string[] = [];
    await new OverrideStore(stores.database, between).override(
      'job',
      (stored) => (before.push(stored.cron), NEW.schedule),
      BY,
    );
    expect(before).toEqual([OLD.schedule.expression, '0 4 * * *']);
  });

  it('does not take over a job whose schedule a live instance declares again by then', async () => {
    await registered();
    await stores.instances.leave('old');
    const between = new ComingBetween(stores.database, () =>
      stores.instances.announce({ instanceId: 'old-2', aliveMs: 60_000, jobs: [OLD], handlers: [] }),
    );
    expect(await new TakeOverStore(stores.database, between).takeOver([NEW], 'new')).toEqual([]);
    expect(await stores.test.query('select cron from job_schedule')).toEqual([{ cron: OLD.schedule.expression }]);
  });

  it('does not write a plan of an hour ago: the schedule would begin in the past', async () => {
    await registered();
    const plan = { at: secondsAgo(3_600), from: fires(10), rows: 0, gap: null };
    const [late] = await stores.test.query(
      `select job_schedule_override_1('job', xmin::text, $1, '* * * * * *', 'UTC', 'ops', null, null) as written from job_schedule`,
      [JSON.stringify(plan)],
    );
    expect(late).toEqual({ written: false });
  });

  it('is told when others are always faster, and has done nothing', async () => {
    await registered();
    const always = new ComingBetween(stores.database, () => stores.test.query('update job_schedule set owner = owner'));
    await expect(new OverrideStore(stores.database, always).override('job', () => NEW.schedule, BY)).rejects.toThrow(
      expect.objectContaining({ code: 'changed-meanwhile' }),
    );
    expect(await stores.test.query('select cron, overridden_at from job_schedule')).toEqual([
      { cron: OLD.schedule.expression, overridden_at: null },
    ]);
  });
});
