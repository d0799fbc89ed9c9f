import { beforeEach, describe, expect, it } from '@jest/globals';
import { KnownJobs } from '../../lib/jobs/known-jobs.js';
import { SchedulerEvents } from '../../lib/observe/scheduler-events.js';
import { WakeUps } from '../../lib/observe/wake-ups.js';
import { WaitingRuns } from '../../lib/runs/waiting-runs.service.js';
import { ReaperService } from '../../lib/runs/reaper.service.js';
import { DatabaseTime } from '../../lib/database/clock.js';
import { JobCursor, JobCursors } from '../../lib/jobs/job-cursors.js';
import { PollPace } from '../../lib/jobs/schedule-follower.service.js';
import type { ReaperOutlook } from '../../lib/runs/reaping.repository.js';
import { aJob } from '../support/job.js';

const NOW = Date.UTC(2026, 0, 1);
const NOTHING: ReaperOutlook = {
  now: new Date(NOW),
  nextExpiry: null,
  nextAttempt: null,
  removedWait: false,
  strays: false,
};

let wakeUps: WakeUps;
let strays: number;
beforeEach(() => {
  wakeUps = new WakeUps();
  wakeUps.areHeard = true;
  strays = 0;
});

/** How long the reaper sleeps after a look that found this. */
async function sleep(
  outlook: Partial<ReaperOutlook>,
  { expression = '0 0 * * *', leaseMs = 60_000 } = {},
): Promise<number> {
  const job = aJob('job', expression, { leaseMs });
  const known = new KnownJobs();
  known.declare({ jobs: [{ definition: job, handler: async () => undefined }], handlers: new Map() });
  const cursors = new JobCursors();
  cursors.set(new JobCursor(job, NOW));
  const pace = new PollPace({ pollIntervalMs: 5_000 }, wakeUps);
  const time = new DatabaseTime();
  const store = {
    outlook: async () => ({ ...NOTHING, ...outlook }),
    orphanRunsOf: async () => (strays++, []),
  } as never;
  const waiting = new WaitingRuns(known, store, { time } as never, cursors);
  const reaper = new ReaperService(known, store, waiting, pace, new SchedulerEvents());
  return reaper.reap();
}

const inMs = (millis: number) => new Date(NOW + millis);

describe('the reaper sleeps', () => {
  it('long, while nothing is open and nothing falls due', async () => {
    expect(await sleep({})).toBe(30_000);
  });

  it('no longer than the poll interval where nobody could wake it up', async () => {
    wakeUps.areHeard = false;
    expect(await sleep({})).toBe(5_000);
  });

  it('until a moment after something is due: others may have started it', async () => {
    expect(await sleep({}, { expression: '*/10 * * * * *' })).toBeCloseTo(15_000, -2);
  });

  it('no longer than the shortest lease, once something may have begun', async () => {
    expect(await sleep({}, { expression: '*/10 * * * * *', leaseMs: 1_000 })).toBeCloseTo(11_000, -2);
    expect(await sleep({ nextExpiry: inMs(60_000) }, { leaseMs: 1_000 })).toBe(1_000);
  });

  it('no longer than the poll interval while something is open', async () => {
    expect(await sleep({ nextExpiry: inMs(60_000) })).toBe(5_000);
    expect(await sleep({ nextAttempt: inMs(60_000) })).toBe(5_000);
    expect(await sleep({ strays: true })).toBe(5_000);
  });

  it('until the next lease ends, or the next attempt is due', async () => {
    expect(await sleep({ nextExpiry: inMs(1_234) })).toBe(1_234);
    expect(await sleep({ nextAttempt: inMs(345) })).toBe(345);
  });
});

describe('a lease that has ended of a job that is not known here', () => {
  it('is looked after, as nobody may know the job', async () => {
    await sleep({});
    expect(strays).toBe(0);
    await sleep({ strays: true });
    expect(strays).toBe(1);
  });
});
