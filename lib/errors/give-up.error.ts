import { SchedulerError } from './scheduler.error.js';

/** Thrown by a handler: no further attempt would do better. The run is dead at once, with this reason, and waits for a person. */
export class GiveUp extends SchedulerError {
  constructor(
    /** For that person. */
    readonly reason: string,
    options?: ErrorOptions,
  ) {
    super(reason, options);
  }
}
