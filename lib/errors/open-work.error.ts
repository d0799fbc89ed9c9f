import { SchedulerError } from './scheduler.error.js';

/** A run was to be completed while something of it was still being written: that would be refused, or lost. */
export class OpenWorkError extends SchedulerError {
  constructor(what: string, run: { readonly jobName: string; readonly fireTime: Date }) {
    super(
      `${what} would complete ${run.jobName} of ${run.fireTime.toISOString()} while a receipt, a checkpoint or a transaction of it ` +
        'is not finished. Await all of them first; what is to commit with the completion goes through the manager of run.transaction.',
    );
  }
}
