import { SchedulerError } from './scheduler.error.js';

/** What a schedule is to leave out cannot be read, or is everything. */
export class InvalidCalendarError extends SchedulerError {
  constructor(
    /** What is wrong, as a sentence without its end. */
    readonly problem: string,
  ) {
    super(`${problem}.`);
  }
}
