import { databaseTrouble } from '../domain/database-trouble.js';
import { adviceAtStart } from './advice-at-start.js';
import { SchedulerError } from './scheduler.error.js';

/** The scheduler's database can't be reached. The message names where its address came from, never a password. */
export class DatabaseConnectionError extends SchedulerError {
  constructor(from: string, cause: unknown) {
    const trouble = databaseTrouble(cause);
    super(
      `Cannot connect to PostgreSQL (address from ${from}): ${describe(cause)}. ` +
        (trouble ? adviceAtStart(trouble) : 'Check that the server runs and that the address, user and password are right.'),
      { cause },
    );
  }
}

/** Node reports several refused addresses as one error without a message of its own. */
function describe(cause: unknown): string {
  if (cause instanceof AggregateError && cause.errors.length > 0) return describe(cause.errors[0]);
  return cause instanceof Error ? cause.message : String(cause);
}
