import { SchedulerError } from './scheduler.error.js';

/** A backfill that nobody asked for. */
export class UnknownBackfillError extends SchedulerError {
  constructor(readonly id: string) {
    super(`There is no backfill ${JSON.stringify(id)}. SchedulerService.backfills() lists those there are, with their ids.`);
  }
}
