import { SchedulerError } from './scheduler.error.js';

/** Somebody cancelled the run: its handler is told to stop, and it ends as cancelled. */
export class CancelledError extends SchedulerError {
  constructor(
    run: { readonly jobName: string; readonly fireTime: Date },
    /** What `job_runs.reason` says in the end. */
    readonly reason: string,
  ) {
    super(`${run.jobName} of ${run.fireTime.toISOString()} was cancelled: ${reason}.`);
  }
}
