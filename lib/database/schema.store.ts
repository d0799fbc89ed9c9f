import { setTimeout as sleep } from 'node:timers/promises';
import { MigrationExecutor, QueryRunnerAlreadyReleasedError } from 'typeorm';
import { problemWithDatabase } from '../../migrations/1796000000000-CheckDatabase.js';
import { SetupError } from '../errors/errors.js';
import { databaseTrouble } from '../errors/database-trouble.js';
import { queryOn, type Queryable } from './query.js';
import type { SchedulerDatabase } from './scheduler-database.js';
import { ensureSchema, numberOf, quoteIdentifier, type SchemaVersion, storedVersion } from '../../migrations/frozen.js';
import { monotonicNow } from './clock.js';
import { MIGRATIONS_TABLE } from './data-sources.js';
import { retryDelay } from './retry.js';
import { isConflict, isImpatience, postgresError } from './sql-state.js';
import { inTransaction, lockName } from './transactions.js';

export const SCHEDULER_TABLES = [
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
    await this.newerRelease();
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
   * @returns what is worth a word at the start; null for most
   * @throws SetupError that names what is missing or somebody else's; also where the schema serves this release no
   * more, and where the server writes dates its own way
   */
  async verify(): Promise<string | null> {
    const { coordination, tables } = this.database;
    const [{ style }] = (await coordination.query(`select current_setting('DateStyle') as style`)) as [
      { style: string },
    ];
    if (!style.startsWith('ISO'))
      throw new SetupError(
        'date-style',
        `The database's DateStyle is "${style}", which the PostgreSQL driver for Node.js does not read. Set it to ISO for the scheduler's role: alter role … set datestyle to 'ISO'.`,
      );
    await this.requireFit(coordination);
    await this.requireRights();
    const missing: { name: string }[] = await coordination.query(
      `select name
       from   unnest($1::text[], $2::text[]) as wanted (name, qualified)
       where  to_regclass(qualified) is null`,
      [SCHEDULER_TABLES, SCHEDULER_TABLES.map((name) => tables.qualify(name))],
    );
    if (missing.length === SCHEDULER_TABLES.length)
      throw missingTables(tables.schema, 'has none of the scheduler’s tables yet');
    if (missing.length > 0) throw missingTables(tables.schema, `lacks ${missing.map(({ name }) => name).join(', ')}`);
    return this.compareVersions();
  }

  /** Those of a role that runs, and owns nothing. What it may not do for partitions is told when it tries. */
  private async requireRights(): Promise<void> {
    const { coordination, tables } = this.database;
    const [{ role, lacking }] = (await coordination.query(
      `select current_user as role, array(
         select 'usage on schema ' || quote_ident($1)
         from   pg_namespace
         where  nspname = $1
         and    not has_schema_privilege(oid, 'usage')
         union  all
         select 'select, insert, update, delete on ' || string_agg(quote_ident($1) || '.' || quote_ident(relname), ', ' order by relname)
         from   pg_class
         where  relnamespace = (select oid from pg_namespace where nspname = $1)
         and    relname = any ($2::text[])
         and    not (has_table_privilege(oid, 'select') and has_table_privilege(oid, 'insert')
                     and has_table_privilege(oid, 'update') and has_table_privilege(oid, 'delete'))
         having count(*) > 0
         union  all
         select 'execute on all functions in schema ' || quote_ident($1)
         from   pg_proc
         where  pronamespace = (select oid from pg_namespace where nspname = $1)
         and    proname in ('scheduler_schema_version', 'job_run_claim_1')
         and    not has_function_privilege(oid, 'execute')
         having count(*) > 0) as lacking`,
      [tables.schema, SCHEDULER_TABLES],
    )) as [{ role: string; lacking: string[] }];
    if (lacking.length === 0) return;
    const grants = lacking.map((right) => `grant ${right} to ${quoteIdentifier(role)};`).join(' ');
    throw new SetupError(
      'missing-rights',
      `Role "${role}" lacks rights that the scheduler needs: ${grants} All of them are printed by: npx nestjs-distributed-cron sql roles --schema ${tables.schema} --runner ${role}`,
    );
  }

  private async compareVersions(): Promise<string | null> {
    const { coordination, tables } = this.database;
    const { version } = (await this.stored()) ?? { version: 0 };
    const pending = coordination.migrations.flatMap(({ name }) => (numberOf(name!) > version ? [name] : []));
    if (pending.length > 0)
      throw missingTables(
        tables.schema,
        `is of an older release: ${pending.join(', ')} ${pending.length === 1 ? 'has' : 'have'} not run`,
      );
    return this.newerRelease();
  }

  /**
   * @returns what is to be said where a newer release has migrated the schema, and this one goes on beside it
   * @throws SetupError where it can't
   */
  private async newerRelease(): Promise<string | null> {
    const { coordination, tables } = this.database;
    const stored = await this.stored();
    const newest = Math.max(...coordination.migrations.map(({ name }) => numberOf(name!)));
    // A tool that brings no migrations has nothing to compare.
    if (stored === null || stored.version <= newest || coordination.migrations.length === 0) return null;
    const newer = `Schema "${tables.schema}" is of a newer release of nestjs-distributed-cron (migration ${stored.version}; this one knows those up to ${newest})`;
    if (stored.serves <= newest) return `${newer}. It serves this release, too, which goes on`;
    throw new SetupError(
      'newer-schema',
      `${newer}, which serves releases that know migration ${stored.serves}. Nothing was changed: update the library in this application.`,
    );
  }

  private stored(): Promise<SchemaVersion | null> {
    return storedVersion(queryOn(this.database.coordination), this.database.tables.schema);
  }

  private async requireFit(target: Queryable): Promise<void> {
    const problem = await problemWithDatabase(queryOn(target), this.database.tables.schema);
    if (problem !== null) throw new SetupError('database-unfit', problem);
  }
}

/** @param lacks what: tables, or migrations that have not run */
function missingTables(schema: string, lacks: string): SetupError {
  return new SetupError(
    'missing-tables',
    `Schema "${schema}" ${lacks}. Set migrate: true in forRoot(), or add schedulerMigrations from ` +
      '"nestjs-distributed-cron/migrations" to the migrations of your data source and run them.',
  );
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
