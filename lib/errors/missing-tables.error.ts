import { SchedulerError } from './scheduler.error.js';

/** The tables are not there, or not those this version needs. */
export class MissingTablesError extends SchedulerError {
  constructor(schema: string, missing: readonly string[]) {
    super(
      `Schema "${schema}" lacks ${missing.join(', ')}. Set migrate: true in forRoot(), or add schedulerMigrations from ` +
        '"nestjs-distributed-cron/migrations" to the migrations of your data source and run them.',
    );
  }
}
