import { SchedulerError } from './scheduler.error.js';

/** An operator asked for something that a job's state does not allow now. */
export class RunRefusedError extends SchedulerError {
  constructor(
    readonly jobName: string,
    /** `run now`, `cancel`, … */
    readonly asked: string,
    /** Why, and what to do. */
    readonly reason: string,
  ) {
    super(`Job "${jobName}": ${asked} is refused: ${reason}.`);
  }
}
