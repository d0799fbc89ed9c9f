import { SchedulerError } from './scheduler.error.js';

/** The server is too old, or somebody else's tables have the names of the scheduler's: nothing was changed, and nothing runs. */
export class UnfitDatabaseError extends SchedulerError {}
