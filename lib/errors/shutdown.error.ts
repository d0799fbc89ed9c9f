import { SchedulerError } from './scheduler.error.js';

/** The application stops and the time for running handlers is over. */
export class ShutdownError extends SchedulerError {
  constructor() {
    super('The application is shutting down and the time for running handlers is over; stop now, another replica goes on.');
  }
}
