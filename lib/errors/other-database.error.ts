import { SchedulerError } from './scheduler.error.js';

/** A transaction on another database can't hold what the scheduler writes: the two would commit apart. */
export class OtherDatabaseError extends SchedulerError {
  constructor(what: string, schema: string, options?: ErrorOptions) {
    super(
      `${what}: the given data source is not on the scheduler’s database: the run is not in "${schema}".job_runs as it sees it. ` +
        'What commits together must be in one database.',
      options,
    );
  }
}
