import { databaseTrouble, type DatabaseTrouble } from './database-trouble.js';
import { adviceAtStart, SchedulerError } from './scheduler.error.js';

/**
 * The server is too old, or somebody else's tables have the names of the scheduler's: nothing was changed, and nothing
 * runs.
 */
export class UnfitDatabaseError extends SchedulerError {}

/**
 * The heartbeat's thread can't start, or ended by itself: a fault of the process, not of the database. The message says
 * what to do.
 */
export class HeartbeatThreadError extends SchedulerError {
  /** @param file of the thread; null where the bundle does not say where it is itself */
  constructor(file: URL | null, thrown: unknown) {
    // Its words and its place alone: whatever code it has says nothing about the database.
    const cause = thrown instanceof Error ? Object.assign(new Error(thrown.message), { stack: thrown.stack }) : thrown;
    super(`The heartbeat’s thread, which renews the leases of running handlers, cannot run: ${advice(file, thrown)}`, {
      cause,
    });
  }
}

function advice(file: URL | null, thrown: unknown): string {
  const code = (thrown as { code?: unknown } | null)?.code;
  const { permission, message = String(thrown) } = (thrown ?? {}) as { permission?: unknown; message?: string };
  if (code === 'ERR_ACCESS_DENIED' && permission === 'WorkerThreads')
    return `Node.js’ permission model allows this process no threads. Start it with --allow-worker.`;
  if (code === 'ERR_ACCESS_DENIED')
    return `Node.js’ permission model forbids it something (${message}). Allow reading its files (--allow-fs-read) and the network.`;
  if (file === null || code === 'MODULE_NOT_FOUND' || code === 'ERR_MODULE_NOT_FOUND') {
    const what =
      file === null ? 'its file is not there' : `its file or a part of it is not there (${file.href}: ${message})`;
    return (
      `${what}. If the application is bundled, this package must stay outside the bundle: with esbuild "external: ['nestjs-distributed-cron']" ` +
      `or "packages: 'external'", with webpack "externals: { 'nestjs-distributed-cron': 'nestjs-distributed-cron' }" or webpack-node-externals, ` +
      `with ncc "--external nestjs-distributed-cron". Or bundle nestjs-distributed-cron/heartbeat-thread as a file of its own, and name that: ` +
      `forRoot({ heartbeatThread: '/app/heartbeat-worker.js' }). See docs/bundlers.md.`
    );
  }
  return `${message}. It starts without --require, --import and NODE_OPTIONS of the process; see what else in it stops threads (${file.href}).`;
}

/** The scheduler's database can't be reached. The message names where its address came from, never a password. */
export class DatabaseConnectionError extends SchedulerError {
  constructor(from: string, cause: unknown) {
    const trouble = databaseTrouble(cause);
    super(
      `Cannot connect to PostgreSQL (address from ${from}): ${describe(cause)}. ` +
        (trouble
          ? adviceAtStart(trouble)
          : 'Check that the server runs and that the address, user and password are right.'),
      { cause },
    );
  }
}

/** Node reports several refused addresses as one error without a message of its own. */
function describe(cause: unknown): string {
  if (cause instanceof AggregateError && cause.errors.length > 0) return describe(cause.errors[0]);
  return cause instanceof Error ? cause.message : String(cause);
}

/** A table has the name of a partition that is needed, and is none: somebody has detached it, and left it there. */
export class DetachedPartitionError extends SchedulerError {
  /**
   * @param name qualified, as its table
   * @param bounds of the month, as SQL has them in quotes
   */
  constructor(name: string, table: string, { from, until }: { readonly from: string; readonly until: string }) {
    super(
      `Table ${name} is there and is no partition of ${table}, so that what is due from ${from} to ${until} has no place. ` +
        `Give it another name (alter table ${name} rename to …), and the scheduler makes a new one; ` +
        `or attach it again: alter table ${table} attach partition ${name} for values from ('${from}') to ('${until}').`,
    );
  }
}

/** The embedded PostgreSQL server could not be started. The message says what to do about it. */
export class EmbeddedServerError extends SchedulerError {}

/** The tables are not there, or not those this version needs. */
export class MissingTablesError extends SchedulerError {
  /** @param lacks what: tables, or migrations that have not run */
  constructor(schema: string, lacks: string) {
    super(
      `Schema "${schema}" ${lacks}. Set migrate: true in forRoot(), or add schedulerMigrations from ` +
        '"nestjs-distributed-cron/migrations" to the migrations of your data source and run them.',
    );
  }
}

/** The schema is of a newer release, which does not serve this one any more. */
export class NewerSchemaError extends SchedulerError {}

/** The database writes timestamps in a form that the driver does not read. */
export class UnreadableDatesError extends SchedulerError {
  constructor(style: string) {
    super(
      `The database's DateStyle is "${style}", which the PostgreSQL driver for Node.js does not read. Set it to ISO for the scheduler's role: alter role … set datestyle to 'ISO'.`,
    );
  }
}

/** The database answers, and what it says keeps the scheduler from starting. The message says what to do. */
export class UnusableDatabaseError extends SchedulerError {
  constructor(trouble: DatabaseTrouble, cause: Error) {
    super(`The scheduler cannot start with its database: ${cause.message}. ${adviceAtStart(trouble)}`, { cause });
  }
}
