import { describe, expect, it } from '@jest/globals';
import type { SchedulerFact } from '../../lib/events/scheduler-event.js';
import { SchedulerEvents } from '../../lib/events/scheduler-events.js';
import { ExecutorService } from '../../lib/execution/executor.service.js';
import { InFlightRuns } from '../../lib/execution/in-flight-runs.js';
import { RunContext } from '../../lib/execution/run-context.js';
import { monotonicNow } from '../../lib/runtime/monotonic.js';
import { aJob } from '../support/job.js';
import { aRun } from '../support/run.js';

describe('G12 a claim that comes back after its lease has ended', () => {
  it.each([
    [-1, 0, ['lease.lost']],
    [60_000, 1, ['run.started', 'run.completed']],
  ])('%i ms left: %i handlers run', async (leftMs, handlers, facts) => {
    const events = new SchedulerEvents();
    const told: SchedulerFact['type'][] = [];
    events.subscribe(({ type }) => told.push(type));
    let ran = 0;
    const job = { definition: aJob('job', '* * * * *'), handler: async () => (ran += 1) };
    const runs = new InFlightRuns(events);
    const endings = { write: async () => events.emit({ type: 'run.completed', jobName: 'job', fireTime: new Date(), attempt: 1, durationMs: 1 }) };
    const executor = new ExecutorService(
      { get: () => job } as never,
      runs,
      { watch: () => {}, forget: () => {} } as never,
      new RunContext(),
      endings as never,
      { now: () => Date.now() } as never,
      events,
    );
    executor.start([aRun({ leaseDeadline: monotonicNow() + leftMs })]);
    await runs.drained(1_000);
    await new Promise((resolve) => setImmediate(resolve));
    expect(ran).toBe(handlers);
    expect(told).toEqual(facts);
  });
});
