import { expect, it } from '@jest/globals';
import { SchedulerEvents } from '../../lib/observe/scheduler-events.js';
import type { ResolvedSchedulerOptions } from '../../lib/options/resolve-options.js';
import { DatabaseTime } from '../../lib/database/clock.js';
import { monotonicNow } from '../../lib/database/clock.js';
import { CatchUpService, type CatchUpStore } from '../../lib/catch-up/catch-up.service.js';
import type { JobCursor, JobCursors } from '../../lib/jobs/job-cursors.js';
import { aJob } from '../support/job.js';

it('a stop waits for the one job that is being decided, not for all that were missed', async () => {
  const missed = ['one', 'two', 'three'].map(
    (name) => ({ job: aJob(name, '* * * * *'), decidedUntil: 0 }) as unknown as JobCursor,
  );
  const asked: string[] = [];
  let fail = (_error: Error) => {};
  let reached = () => {};
  const deciding = new Promise<void>((resolve) => (reached = resolve));
  const silentStore = {
    decide: ({ name }: { name: string }) => {
      asked.push(name);
      reached();
      return new Promise((_resolve, reject) => (fail = reject));
    },
  } as unknown as CatchUpStore;
  const time = new DatabaseTime();
  time.observe(Date.now(), monotonicNow());
  const options = { pollIntervalMs: 60_000 } as ResolvedSchedulerOptions;
  const catchUps = new CatchUpService(
    options,
    { due: () => ({ live: [], missed }), whenMissed: () => {} } as unknown as JobCursors,
    silentStore,
    time,
    new SchedulerEvents(),
  );
  catchUps.start();
  await deciding;
  const stopped = catchUps.stop();
  fail(new Error('Query read timeout'));
  await stopped;
  expect(asked).toEqual(['one']);
});
