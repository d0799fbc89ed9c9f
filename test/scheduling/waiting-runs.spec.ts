import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { KnownJobs } from '../../lib/jobs/known-jobs.js';
import type { JobDefinition } from '../../lib/options/job-definition.js';
import { DatabaseTime } from '../../lib/database/clock.js';
import { JobCursors } from '../../lib/jobs/job-cursors.js';
import { RunStarter } from '../../lib/runs/executor.service.js';
import { WaitingRuns } from '../../lib/runs/waiting-runs.service.js';
import type { WaitingRun } from '../../lib/runs/claim.js';
import { aDue } from '../support/due.js';
import { aJob } from '../support/job.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;
beforeAll(async () => {
  stores = await openStores();
});
afterAll(() => stores.close());
beforeEach(() => stores.test.query('delete from job_runs'));

const GROUP = { name: 'exports', limit: 1 };
const LIVE = aJob('live', '* * * * * *', { concurrencyGroup: GROUP });
const OTHER = aJob('other', '0 3 * * *', { concurrencyGroup: GROUP });
const MANY = aJob('many', '* * * * * *', { overlap: 'allow', parallel: 2 });

/** What an instance starts of what waits; it claims, and has no handlers. */
function instance(jobs: JobDefinition[] = [LIVE, OTHER, MANY], { taken = 0, lingering = '' } = {}): WaitingRuns {
  const known = new KnownJobs();
  known.declare({
    jobs: jobs.map((definition) => ({ definition, handler: async () => undefined })),
    handlers: new Map(),
  });
  const claimWaiting = async (runs: readonly WaitingRun[], by: ReadonlyMap<string, JobDefinition>) => {
    const asked = runs.map((run) => {
      const { overlap, parallel, concurrencyGroup } = by.get(run.jobName)!;
      return {
        ...run,
        overlap,
        parallel,
        group: concurrencyGroup?.name ?? null,
        groupLimit: concurrencyGroup?.limit ?? null,
        leaseMs: 60_000,
      };
    });
    return (await stores.claims.claimWaiting(asked, 'A')).answers;
  };
  const runs = {
    taken,
    lingers: ({ name }: JobDefinition) => name === lingering,
    reserving: (_: number, work: () => unknown) => work(),
  };
  const time = new DatabaseTime();
  time.observe(new Date(), performance.now());
  const starter = new RunStarter(
    { maxConcurrentRuns: 100 },
    runs as never,
    { claimWaiting } as never,
    { start: () => {} } as never,
    time,
  );
  return new WaitingRuns(known, stores.reaper, starter, new JobCursors());
}

/** The schedule's occurrence of so many seconds ago, as a tick has it. */
const due = (seconds: number, job = LIVE) => ({
  job,
  fireTime: secondsAgo(seconds).getTime(),
  startsAt: secondsAgo(seconds).getTime(),
});

/** A tick: what waits, if it is its turn, and then what is due. */
async function tick(waiting: WaitingRuns, ...candidates: ReturnType<typeof due>[]): Promise<string[]> {
  await waiting.startBefore(candidates);
  const { answers } = await stores.claims.claimDue(
    candidates.map(({ job, fireTime }) =>
      aDue(job.name, new Date(fireTime), {
        overlap: job.overlap,
        parallel: job.parallel,
        group: job.concurrencyGroup?.name ?? null,
        groupLimit: job.concurrencyGroup?.limit ?? null,
      }),
    ),
    'A',
  );
  return answers.map(({ verdict }) => verdict);
}

async function waits(
  job: string,
  trigger: string,
  since: number,
  { back = 3_600, status = 'queued', beside = false } = {},
): Promise<void> {
  const failed = status === 'failed' ? `, claimed_by = 'A', attempt = 1` : '';
  await stores.test.query(
    `insert into job_runs (job_name, fire_time, status, trigger, beside, next_attempt_at)
     values ($1, $2::timestamptz + case when $3 = 'manual' then interval '5 milliseconds' else interval '0' end, 'queued', $3, $4, $5)`,
    [job, secondsAgo(back), trigger, beside, secondsAgo(since)],
  );
  if (!failed) return;
  await stores.test.query(`alter table job_runs disable trigger user`);
  await stores.test.query(`update job_runs set status = 'failed'${failed} where job_name = $1`, [job]);
  await stores.test.query(`alter table job_runs enable trigger user`);
}

const running = async () =>
  (
    await stores.test.query<{ run: string }>(
      `select job_name || ' ' || trigger as run from job_runs where status = 'running' order by 1`,
    )
  ).map(({ run }) => run);
const end = () =>
  stores.test.query(`update job_runs set status = 'done', finished_at = now() where status = 'running'`);

describe('a concurrency group in which more comes due than it has places', () => {
  it.each([
    ['a retry', 'schedule', 'failed'],
    ['what a person asked for', 'manual', 'queued'],
    ['what is caught up', 'catch-up', 'queued'],
    ['what a backfill has queued', 'backfill', 'queued'],
  ])('gives one to %s that has waited longer than what is due', async (_, trigger, status) => {
    const waiting = instance();
    expect(await tick(waiting, due(60))).toEqual(['claimed']);
    await waits('other', trigger, 50, { status });
    expect(await tick(waiting, due(40))).toEqual(['waiting']);
    await end();
    expect(await tick(waiting, due(40))).toEqual(['waiting']);
    expect(await running()).toEqual([`other ${trigger}`]);
    await end();
    expect(await tick(waiting, due(40))).toEqual(['claimed']);
  });

  it('gives it to what is due when that has waited longer', async () => {
    const waiting = instance();
    await waits('other', 'manual', 30);
    expect(await tick(waiting, due(40))).toEqual(['claimed']);
  });

  it('lets a backlog have one place after the other, and not all at once', async () => {
    const waiting = instance();
    for (const back of [300, 200, 100]) await waits('other', 'catch-up', 90, { back });
    expect(await tick(waiting, due(60))).toEqual(['waiting']);
    expect(await running()).toEqual(['other catch-up']);
    await end();
    expect(await tick(waiting, due(60))).toEqual(['claimed']);
    await end();
    await waiting.start();
    expect(await running()).toEqual(['other catch-up']);
  });

  it('has what waits in line by how long it waits, whatever its kind', async () => {
    const waiting = instance();
    await waits('other', 'backfill', 50);
    await waits('live', 'schedule', 40, { back: 40 });
    await waiting.start();
    expect(await running()).toEqual(['other backfill']);
  });

  it('gives it to what is due when nobody here can start what waits', async () => {
    await waits('other', 'manual', 50);
    expect(await tick(instance([LIVE]), due(40))).toEqual(['claimed']);
  });
});

describe('an instance', () => {
  beforeEach(async () => {
    for (const back of [300, 200, 100]) await waits('many', 'manual', 50, { back, beside: true });
  });

  it('starts no more of what waits than it has room for', async () => {
    await instance([aJob('many', '* * * * * *', { overlap: 'allow' })], { taken: 98 }).start();
    expect(await running()).toHaveLength(2);
    await instance([aJob('many', '* * * * * *', { overlap: 'allow' })], { taken: 100 }).start();
    expect(await running()).toHaveLength(2);
  });

  it('G8 starts nothing of a job whose handler lost its lease and still runs here; others may', async () => {
    await waits('other', 'manual', 40);
    await instance(undefined, { lingering: 'other' }).start();
    expect(new Set(await running())).toEqual(new Set(['many manual']));
    await end();
    await instance().start();
    expect(await running()).toContain('other manual');
  });
});

describe('a job that allows so many runs beside each other, and always has as many', () => {
  it('gives a place to what a person asked for and queued, as soon as there is one', async () => {
    const waiting = instance();
    await tick(waiting, due(60, MANY), due(50, MANY));
    await waits('many', 'manual', 40);
    expect(await tick(waiting, due(30, MANY))).toEqual(['waiting']);
    await stores.test.query(`update job_runs set status = 'done' where fire_time = $1`, [secondsAgo(60)]);
    expect(await tick(waiting, due(30, MANY))).not.toEqual(['claimed']);
    expect(await running()).toEqual(['many manual', 'many schedule']);
  });
});
