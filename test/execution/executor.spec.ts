import { describe, expect, it } from '@jest/globals';
import type { JobDefinition } from '../../lib/options/job-definition.js';
import type { RunEnd } from '../../lib/runs/outcome.js';
import { TimeoutError } from '../../lib/runs/outcome.js';
import { RetryLater } from '../../lib/runs/outcome.js';
import { GiveUp } from '../../lib/errors/run.errors.js';
import type { SchedulerFact } from '../../lib/observe/scheduler-event.js';
import { SchedulerEvents } from '../../lib/observe/scheduler-events.js';
import { InFlightRuns, type InFlightRun } from '../../lib/runs/in-flight-runs.js';
import { monotonicNow } from '../../lib/database/clock.js';
import { anExecutor, someEndings } from '../support/executor.js';
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
    const endings = Object.assign(someEndings(events, {}), {
      write: async () =>
        events.emit({ type: 'run.completed', jobName: 'job', fireTime: new Date(), attempt: 1, durationMs: 1 }),
    });
    const executor = anExecutor(job, runs, endings as never, events);
    executor.start([aRun({ leaseDeadline: monotonicNow() + leftMs })]);
    await runs.drained(1_000);
    await new Promise((resolve) => setImmediate(resolve));
    expect(ran).toBe(handlers);
    expect(told).toEqual(facts);
  });
});

describe('a handler that was told to stop', () => {
  /** What is written about a handler that does this. */
  async function outcomeOf(handler: (run: InFlightRun) => unknown, policies: Partial<JobDefinition> = {}) {
    const events = new SchedulerEvents();
    const told: SchedulerFact['type'][] = [];
    events.subscribe(({ type }) => told.push(type));
    const runs = new InFlightRuns(events);
    const definition = aJob('job', '* * * * *', policies);
    const job = { definition, handler: async () => handler(runs.list()[0]!) };
    const written: RunEnd[] = [];
    const endings = Object.assign(someEndings(events, {}), {
      write: async (_run: InFlightRun, outcome: RunEnd) => void written.push(outcome),
    });
    const executor = anExecutor(job, runs, endings as never, events);
    executor.start([aRun()]);
    await runs.drained(1_000);
    return { outcome: written[0], told };
  }
  const fail = (error: unknown) => {
    throw error;
  };

  it.each<[string, (run: InFlightRun) => unknown, object]>([
    ['nobody told it: it returns', () => {}, { status: 'done' }],
    ['nobody told it: it throws', () => fail(new Error('no')), { status: 'failed', error: { message: 'no' } }],
    ['by a shutdown: it returns', (run) => run.shutDown(), { status: 'queued', releases: 1 }],
    ['by a shutdown: it throws', (run) => (run.shutDown(), fail(new Error('no'))), { status: 'queued', releases: 1 }],
    [
      'by a timeout: it returns',
      (run) => run.timeOut('maxRunTime'),
      { status: 'failed', error: { name: 'TimeoutError' } },
    ],
    [
      'by a timeout: it throws',
      (run) => (run.timeOut('maxRunTime'), fail(new Error('aborted'))),
      { status: 'failed', error: { name: 'TimeoutError' } },
    ],
    [
      'by a timeout: it gives up',
      (run) => (run.timeOut('maxRunTime'), fail(new GiveUp('too big'))),
      { status: 'dead', error: { name: 'GiveUp' }, reason: 'gave up: too big' },
    ],
    [
      'by a timeout: it knows when',
      (run) => (run.timeOut('maxRunTime'), fail(new RetryLater('1h'))),
      { status: 'failed', retryInMs: 3_600_000 },
    ],
    ['by a cancel: it returns', (run) => run.cancel('wrong month'), { status: 'cancelled', reason: 'wrong month' }],
    [
      'by a cancel: it throws',
      (run) => (run.cancel('wrong month'), fail(new Error('no'))),
      { status: 'cancelled', reason: 'wrong month' },
    ],
    [
      'by a cancel while it is shut down',
      (run) => (run.shutDown(), run.cancel('wrong month')),
      { status: 'cancelled', reason: 'wrong month' },
    ],
  ])('%s', async (_name, handler, outcome) => {
    expect((await outcomeOf(handler)).outcome).toMatchObject(outcome);
  });

  it('retryable is asked about the timeout, too', async () => {
    const { outcome } = await outcomeOf((run) => run.timeOut('maxRunTime'), {
      retryable: (error) => !(error instanceof TimeoutError),
    });
    expect(outcome).toMatchObject({ status: 'dead', reason: 'not retryable', error: { name: 'TimeoutError' } });
  });

  it('what the job’s own functions throw is told, and the handler’s error is kept', async () => {
    const broken = () => fail(new RangeError('my own bug')) as never;
    const retryable = await outcomeOf(() => fail(new Error('no')), { retryable: broken });
    expect(retryable.outcome).toMatchObject({ status: 'failed', error: { message: 'no' } });
    expect(retryable.told).toContain('policy.failed');
    const backoff = await outcomeOf(() => fail(new Error('no')), { backoff: { kind: 'function', delay: broken } });
    expect(backoff.outcome).toMatchObject({
      status: 'dead',
      error: { message: 'no' },
      reason: 'its backoff threw: my own bug',
    });
    expect(backoff.told).toContain('policy.failed');
  });
});
