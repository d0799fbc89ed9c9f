import { setTimeout as sleep } from 'node:timers/promises';
import { MigrationExecutor, QueryRunnerAlreadyReleasedError } from 'typeorm';
import { problemWithDatabase } from '../../migrations/1796000000000-CheckDatabase.js';
import { databaseTrouble } from '../errors/database-trouble.js';
import { MissingTablesError } from '../errors/database.errors.js';
import { UnfitDatabaseError } from '../errors/database.errors.js';
import { UnreadableDatesError } from '../errors/database.errors.js';
import { queryOn, type Queryable } from './query.js';
import type { SchedulerDatabase } from './scheduler-database.js';
import { ensureSchema } from '../../migrations/frozen.js';
import { monotonicNow } from './clock.js';
import { MIGRATIONS_TABLE } from './data-sources.js';
import { retryDelay } from './retry.js';
import { isConflict, isImpatience, postgresError } from './sql-state.js';
import { inTransaction, lockName } from './transaction.js';

const TABLES = [
  'job_schedule',
  'job_runs',
  'receipts',
  'receipt_secret',
  'job_backfills',
  'job_instances',
  'job_actions',
  'job_flags',
  'job_alerts',
  'job_pages',
];

/** Columns that a later migration has added. */
const COLUMNS = [
  ['job_instances', 'application'],
  ['job_instances', 'zones'],
] as const;

/** A start is busy: its event loop may stand still for longer than the server waits. */
const MOST_TRIES = 5;

/**
 * How long a change of a table waits for transactions that have it, in milliseconds: behind it waits everybody else,
 * and a handler may be long in its transaction. Shorter than any deadlock is looked for, so that it is the migration
 * that yields.
 */
const LOCK_WITHIN_MS = 500;

/** For how long it comes again for them, in milliseconds: as an orchestrator waits for a start. */
const LOCKS_PATIENCE_MS = 30_000;

/** Creates the tables, or makes sure that somebody has. */
export class SchemaStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /**
   * Runs what is pending of the library's migrations. TypeORM lets two replicas that boot together both create the same
   * table, so everything happens in one transaction behind one lock: the first migrates, the others wait and find it
   * done.
   * Where nothing is pending nobody takes the lock. Whoever stands still in the middle loses the transaction, and
   * begins again.
   * Replicas of a release before go on meanwhile: what waits for their transactions gives up soon, and comes again.
   */
  async migrate(): Promise<void> {
    const begunAt = monotonicNow();
    let [losses, failures] = [0, 0];
    while (await this.isPending()) {
      try {
        return await this.runPending();
      } catch (error) {
        const goesOn = isImpatience(error)
          ? monotonicNow() - begunAt < LOCKS_PATIENCE_MS
          : isLostTransaction(error) && ++losses < MOST_TRIES;
        if (!goesOn) throw error;
        await sleep(retryDelay(++failures));
      }
    }
  }

  private async isPending(): Promise<boolean> {
    const { coordination, tables } = this.database;
    const table = tables.qualify(MIGRATIONS_TABLE);
    const query = queryOn(coordination);
    const [{ there }] = (await query<{ there: boolean }>('select to_regclass($1) is not null as there', [table])) as [
      { there: boolean },
    ];
    if (!there) return true;
    const done = new Set((await query<{ name: string }>(`select name from ${table}`)).map(({ name }) => name));
    return coordination.migrations.some(({ name }) => !done.has(name!));
  }

  private async runPending(): Promise<void> {
    const { coordination, tables } = this.database;
    await this.requireFit(coordination);
    await inTransaction(coordination, async (query, queryRunner) => {
      await lockName(query, `nestjs-distributed-cron:migrate:${tables.schema}`);
      await query(`select set_config('lock_timeout', $1, true)`, [String(LOCK_WITHIN_MS)]);
      await ensureSchema(queryRunner, tables.schema);
      const executor = new MigrationExecutor(coordination, queryRunner);
      executor.transaction = 'none';
      await executor.executePendingMigrations();
    });
  }

  /**
   * @throws MissingTablesError that names what is missing, UnfitDatabaseError that names what is somebody else's,
   * UnreadableDatesError where the server writes dates its own way
   */
  async verify(): Promise<void> {
    const { coordination, tables } = this.database;
    const [{ style }] = (await coordination.query(`select current_setting('DateStyle') as style`)) as [
      { style: string },
    ];
    if (!style.startsWith('ISO')) throw new UnreadableDatesError(style);
    await this.requireFit(coordination);
    const missing: { name: string }[] = await coordination.query(
      `select name
       from   unnest($1::text[], $2::text[]) as wanted (name, qualified)
       where  to_regclass(qualified) is null`,
      [TABLES, TABLES.map((name) => tables.qualify(name))],
    );
    const lacking: { name: string }[] = await coordination.query(
      `select wanted.table_name || '.' || wanted.column_name as name
       from   unnest($1::text[], $2::text[], $3::text[]) as wanted (table_name, qualified, column_name)
       where  not exists (
                select from pg_attribute
                where  attrelid = to_regclass(qualified)
                and    attname = column_name
                and    not attisdropped)
       and    to_regclass(qualified) is not null`,
      [
        COLUMNS.map(([table]) => table),
        COLUMNS.map(([table]) => tables.qualify(table)),
        COLUMNS.map(([, column]) => column),
      ],
    );
    missing.push(...lacking);
    if (missing.length > 0)
      throw new MissingTablesError(
        tables.schema,
        missing.map((table) => table.name),
      );
  }

  private async requireFit(target: Queryable): Promise<void> {
    const problem = await problemWithDatabase(queryOn(target), this.database.tables.schema);
    if (problem !== null) throw new UnfitDatabaseError(problem);
  }
}

/**
 * The server has ended the transaction of a process that stood still, or that others were in the way of; or the way to
 * it broke.
 */
function isLostTransaction(error: unknown): boolean {
  return (
    isConflict(error) ||
    error instanceof QueryRunnerAlreadyReleasedError ||
    postgresError(error).code === '25P03' ||
    databaseTrouble(error)?.kind === 'unreachable'
  );
}
