import { KnownJobs, type RegisteredJob } from '../../lib/jobs/known-jobs.js';
import { SchedulerEvents } from '../../lib/observe/scheduler-events.js';
import { ExecutorService, RunHandlers } from '../../lib/runs/executor.service.js';
import type { InFlightRuns } from '../../lib/runs/in-flight-runs.js';
import { RunContext } from '../../lib/runs/run-context.js';
import { AttemptEnds, RunEndings } from '../../lib/runs/run-endings.service.js';
import type { RunStepsService } from '../../lib/runs/run-steps.service.js';

const TIME = { now: () => Date.now() } as never;

/** Writes how attempts end to a store that the test makes up. */
export function someEndings(events: SchedulerEvents, writer: object, store: object = {}): RunEndings {
  return new RunEndings(store as never, writer as never, {} as never, events);
}

/** Executes runs of this job. */
export function anExecutor(
  job: RegisteredJob,
  runs: InFlightRuns,
  endings: RunEndings,
  events: SchedulerEvents,
  steps: Pick<RunStepsService, 'of'> = { of: () => ({}) as never },
): ExecutorService {
  const known = new KnownJobs();
  known.declare({ jobs: [job], handlers: new Map() });
  const handlers = new RunHandlers(known, new RunContext(), { secret: '' } as never, steps as never);
  return new ExecutorService(handlers, runs, new AttemptEnds(TIME, events), endings, events);
}
