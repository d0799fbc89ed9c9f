import { SchedulerError } from './scheduler.error.js';

/** The embedded PostgreSQL server could not be started. The message says what to do about it. */
export class EmbeddedServerError extends SchedulerError {}
