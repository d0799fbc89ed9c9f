import type { JobDefinition } from '../domain/job-definition.js';
import type { CronRunFacts } from '../domain/runs/cron-run.js';
import type { InFlightRun } from './in-flight-runs.js';

/** What a handler learns about its run, whether it has the whole occurrence or a page of it. */
export function cronRunFacts(run: InFlightRun, definition: JobDefinition, secret: string): CronRunFacts {
  const { jobName, fireTime, attempt, trigger } = run.owned;
  return {
    jobName,
    fireTime,
    previousFireTime: () => {
      const previous = definition.schedule.previousBefore(fireTime.getTime());
      return previous === null ? null : new Date(previous);
    },
    attempt,
    trigger,
    data: run.owned.data ?? definition.data,
    signal: run.signal,
    secret,
    leaseUntil: () => run.leaseUntil,
  };
}
