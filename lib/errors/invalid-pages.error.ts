import { SchedulerError } from './scheduler.error.js';

/** What a handler wanted to publish cannot be its run's pages. */
export class InvalidPagesError extends SchedulerError {
  constructor(run: { readonly jobName: string; readonly fireTime: Date }, problem: string) {
    super(`FanOutService.publish of ${run.jobName} of ${run.fireTime.toISOString()}: ${problem}.`);
  }
}
