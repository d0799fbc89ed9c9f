import { SchedulerError } from './scheduler.error.js';

/** What an operator asked for would have to wait for another transaction. Nothing was changed. */
export class OperationBusyError extends SchedulerError {
  constructor(
    /** `cancel`, `pause`, … */
    readonly asked: string,
    /** Of what: `job "export"`. */
    readonly what: string,
  ) {
    super(`Cannot ${asked} ${what} now: another transaction has held its rows for seconds. Nothing was changed: try again, or look for that transaction in pg_stat_activity.`);
  }
}
