import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { DatabaseTime } from '../../lib/database/clock.js';
import { KnownJobs } from '../../lib/jobs/known-jobs.js';
import { PollPace } from '../../lib/jobs/schedule-follower.service.js';
import { JobCursors } from '../../lib/jobs/job-cursors.js';
import { SchedulerEvents } from '../../lib/observe/scheduler-events.js';
import { WakeUps } from '../../lib/observe/wake-ups.js';
import { WaitingRuns } from '../../lib/runs/waiting-runs.service.js';
import { ReaperService } from '../../lib/runs/reaper.service.js';
import { aJob } from '../support/job.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;
let reaper: ReaperService;
let refused: string[];
beforeAll(async () => {
  stores = await openStores();
  await stores.test.query('create sequence tries');
  await stores.test.query(
    `create function refuse() returns trigger language plpgsql as $$
     begin
       perform nextval('public.tries');
       if new.job_name = 'bad' then raise exception 'not this job'; end if;
       return new;
     end $$`,
  );
});
afterAll(() => stores.close());
beforeEach(async () => {
  await stores.test.query('delete from job_runs');
  await stores.test.query(`select setval('tries', 1, false)`);
  await stores.test.query('create trigger refuse before update on job_runs for each row execute function refuse()');
  const events = new SchedulerEvents();
  refused = [];
  events.of('data.refused').subscribe(({ jobName, step }) => refused.push(`${step} ${jobName}`));
  const known = new KnownJobs();
  known.declare({
    jobs: ['bad', 'good'].map((name) => ({ definition: aJob(name, '0 0 1 1 *'), handler: async () => undefined })),
    handlers: new Map(),
  });
  const wakeUps = new WakeUps();
  wakeUps.areHeard = true;
  const pace = new PollPace({ pollIntervalMs: 5_000 }, wakeUps);
  const starter = { places: 0, room: 0, lingers: () => false, time: new DatabaseTime() } as never;
  const waiting = new WaitingRuns(known, stores.reaper, starter, new JobCursors());
  reaper = new ReaperService(known, stores.reaper, waiting, pace, events);
});
afterEach(async () => {
  jest.restoreAllMocks();
  await stores.test.query('drop trigger if exists refuse on job_runs');
});

/** Leases that have run out. */
const expired = (jobName: string, runs: number) =>
  stores.test.query(
    `insert into job_runs (job_name, fire_time, status, trigger, attempt, claimed_by, started_at, lease_until)
     select $1, $2::timestamptz + n * interval '1 second', 'running', 'schedule', 1, 'gone', now(), now() - interval '1 second' from generate_series(1, $3::integer) n`,
    [jobName, secondsAgo(1_000), runs],
  );
const running = async (jobName: string) =>
  (await stores.test.query(`select from job_runs where job_name = $1 and status = 'running'`, [jobName])).length;
const tries = async () =>
  Number((await stores.test.query<{ next: string }>(`select nextval('tries') - 1 as next`))[0]!.next);
/** The monotonic clock goes on. */
function pass(millis: number): void {
  const now = process.hrtime.bigint;
  jest.spyOn(process.hrtime, 'bigint').mockImplementation(() => now() + BigInt(millis) * 1_000_000n);
}

describe('runs that can’t be reaped', () => {
  it('rest after they were refused, and leave their places to the others', async () => {
    await expired('bad', 100);
    await expired('good', 1);
    await reaper.reap();
    await reaper.reap();
    expect(await running('good')).toBe(0);
    expect(await tries()).toBe(101);
    expect(refused).toEqual(Array.from({ length: 100 }, () => 'reap bad'));
  });

  it('let the reaper sleep until they are to be tried again; once mended, they are reaped then', async () => {
    await expired('bad', 1);
    await reaper.reap();
    const sleep = await reaper.reap();
    expect(sleep).toBeGreaterThan(1_000);
    expect(sleep).toBeLessThanOrEqual(10_000);
    expect(await tries()).toBe(1);
    await stores.test.query('drop trigger refuse on job_runs');
    pass(10_000);
    await reaper.reap();
    expect(await running('bad')).toBe(0);
  });

  it('are told of again when they are refused again after they were accepted', async () => {
    await expired('bad', 1);
    await reaper.reap();
    await stores.test.query('alter table job_runs disable trigger refuse');
    pass(10_000);
    await reaper.reap();
    await stores.test.query('delete from job_runs');
    await stores.test.query('alter table job_runs enable trigger refuse');
    await expired('bad', 1);
    await reaper.reap();
    expect(refused).toEqual(['reap bad', 'reap bad']);
  });
});

describe('what waits of a removed job, and can’t be cancelled', () => {
  beforeEach(async () => {
    await stores.test.query('delete from job_schedule');
    await stores.test.query(
      `insert into job_schedule (name, cron, time_zone, policies, removed_at)
       select name, '0 0 1 1 *', 'UTC', '{}', now() from unnest('{bad,good}'::text[]) name`,
    );
  });
  afterEach(() => stores.test.query('delete from job_schedule'));

  const waits = (jobName: string, runs: number) =>
    stores.test.query(
      `insert into job_runs (job_name, fire_time, status, trigger, next_attempt_at)
       select $1, $2::timestamptz + n * interval '1 second', 'queued', 'schedule', now() from generate_series(1, $3::integer) n`,
      [jobName, secondsAgo(1_000), runs],
    );
  const waiting = async (jobName: string) =>
    (await stores.test.query(`select from job_runs where job_name = $1 and status = 'queued'`, [jobName])).length;

  it('rests after it was refused, and leaves its places to the others; once mended, it is cancelled', async () => {
    await waits('bad', 100);
    await waits('good', 1);
    await reaper.reap();
    await reaper.reap();
    expect(await waiting('good')).toBe(0);
    expect(await tries()).toBe(101);
    expect(refused).toEqual(Array.from({ length: 100 }, () => 'cancel bad'));
    expect(await reaper.reap()).toBeLessThanOrEqual(10_000);
    await stores.test.query('drop trigger refuse on job_runs');
    pass(10_000);
    await reaper.reap();
    expect(await waiting('bad')).toBe(0);
  });
});
