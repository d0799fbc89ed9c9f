import { SchedulerError } from './scheduler.error.js';

/** The database writes timestamps in a form that the driver does not read. */
export class UnreadableDatesError extends SchedulerError {
  constructor(style: string) {
    super(`The database's DateStyle is "${style}", which the PostgreSQL driver for Node.js does not read. Set it to ISO for the scheduler's role: alter role … set datestyle to 'ISO'.`);
  }
}
