import { SchedulerError } from './scheduler.error.js';

/** What was asked of a run can't be done in the state it is in. */
export class RunStateError extends SchedulerError {
  /** @param problem why not, and what to do instead: the end of a sentence */
  constructor(verb: string, run: { readonly jobName: string; readonly fireTime: Date }, readonly status: string, problem: string) {
    super(`Cannot ${verb} ${run.jobName} of ${run.fireTime.toISOString()}, which is ${status}: ${problem}.`);
  }
}
