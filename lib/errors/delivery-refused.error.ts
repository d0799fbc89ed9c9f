import type { DeliveryProblem } from '../domain/delivery.js';
import { SchedulerError } from './scheduler.error.js';

/** An occurrence was delivered that its job's schedule does not have, or whose time has not come. Nothing was written. */
export class DeliveryRefusedError extends SchedulerError {
  constructor(
    readonly jobName: string,
    readonly problem: DeliveryProblem,
    /** In words, with the nearest fire times where that helps. */
    why: string,
  ) {
    super(`Job "${jobName}": the delivery is refused: ${why}.`);
  }
}
