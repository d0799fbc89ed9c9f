import { SchedulerError } from './scheduler.error.js';

/** What was to be changed was changed by others, each time between reading and writing. Nothing was done. */
export class ChangedMeanwhileError extends SchedulerError {
  /** @param what in words, with its name */
  constructor(what: string) {
    super(`${what} was changed by others each time it was to be changed: nothing was done. Try again.`);
  }
}
