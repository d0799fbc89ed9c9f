import { SchedulerError } from './scheduler.error.js';

/** A checkpoint can't be kept. The message says where in it, and why. */
export class InvalidCheckpointError extends SchedulerError {
  constructor(problem: string) {
    super(`The checkpoint can’t be kept: ${problem}.`);
  }
}
