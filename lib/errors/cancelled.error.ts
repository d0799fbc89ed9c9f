import { SchedulerError } from './scheduler.error.js';

/** The run was cancelled: its handler is to stop, and it is not tried again. */
export class CancelledError extends SchedulerError {
  constructor(run: { readonly jobName: string; readonly fireTime: Date }, readonly reason: string) {
    super(`${run.jobName} of ${run.fireTime.toISOString()} is cancelled: ${reason}.`);
  }
}
