import { formatDuration } from '../domain/duration.js';
import { SchedulerError } from './scheduler.error.js';

/** The handler has taken as long as its job allows: its signal is aborted, and the attempt fails with this when it ends. */
export class TimeoutError extends SchedulerError {
  constructor(
    run: { readonly jobName: string; readonly fireTime: Date; readonly attempt: number },
    /** The option whose time is over. */
    readonly limit: 'timeout' | 'maxRunTime',
    /** How long that is, in milliseconds. */
    readonly limitMs: number,
  ) {
    super(`${run.jobName} of ${run.fireTime.toISOString()} (attempt ${run.attempt}) has run for its ${limit} of ${formatDuration(limitMs)}.`);
  }
}
