import { SchedulerError } from './scheduler.error.js';

/** What the code declares about its jobs can't be run: every problem found, each with the class, method and job. */
export class InvalidJobsError extends SchedulerError {
  constructor(readonly problems: readonly string[]) {
    super(`The declared jobs cannot be scheduled:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`);
  }
}
