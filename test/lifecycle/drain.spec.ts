import { describe, expect, it } from '@jest/globals';
import { ShutdownError } from '../../lib/errors/run.errors.js';
import { SchedulerEvents } from '../../lib/observe/scheduler-events.js';
import { InFlightRun, InFlightRuns } from '../../lib/runs/in-flight-runs.js';
import { PagesInFlight } from '../../lib/fan-out/page-executor.service.js';
import { Drain } from '../../lib/lifecycle/drain.js';
import { aJob } from '../support/job.js';
import { aRun } from '../support/run.js';

/** A run under way in an instance that stops, which waits so long for it. */
function stopping(shutdownTimeoutMs: number) {
  const runs = new InFlightRuns(new SchedulerEvents());
  const run = new InFlightRun(aRun(), aJob('job', '* * * * *'));
  runs.add(run);
  return {
    runs,
    run,
    drained: new Drain({ shutdownTimeoutMs } as never, runs, new PagesInFlight(new SchedulerEvents())).drain(),
  };
}

describe('a stopping instance', () => {
  it('waits for a handler, and tells it nothing while it has time', async () => {
    const { runs, run, drained } = stopping(60_000);
    runs.remove(run);
    expect(await drained).toBe(0);
    expect(run.signal.aborted).toBe(false);
  });

  it('aborts what takes too long, and waits a little more for its end', async () => {
    const { runs, run, drained } = stopping(1);
    run.signal.addEventListener('abort', () => setTimeout(() => runs.remove(run), 100));
    expect(await drained).toBe(0);
    expect(run.signal.reason).toBeInstanceOf(ShutdownError);
  });

  it('says how many it leaves to their leases', async () => {
    const { drained } = stopping(1);
    expect(await drained).toBe(1);
  });
});
