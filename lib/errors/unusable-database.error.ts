import type { DatabaseTrouble } from '../domain/database-trouble.js';
import { adviceAtStart } from './advice-at-start.js';
import { SchedulerError } from './scheduler.error.js';

/** The database answers, and what it says keeps the scheduler from starting. The message says what to do. */
export class UnusableDatabaseError extends SchedulerError {
  constructor(trouble: DatabaseTrouble, cause: Error) {
    super(`The scheduler cannot start with its database: ${cause.message}. ${adviceAtStart(trouble)}`, { cause });
  }
}
