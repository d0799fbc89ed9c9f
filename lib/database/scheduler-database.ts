import type { DataSource } from 'typeorm';
import { ask, connectionSettings, type ConnectionSettings, queryOn, type Queryable } from './query.js';
import { sessionOf, type PgSession } from './clients.js';
import type { PostgresConnection } from '../options/scheduler-options.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { unreachable } from '../errors/database-trouble.js';
import { inCleanContext } from './loop.js';
import { Slots } from './collections.js';
import {
  applicationSource,
  asideSource,
  coordinationSource,
  leaveConnections,
  receiptSource,
  type OwnTables,
} from './data-sources.js';
import { withPatience } from './retry.js';
import { startEmbeddedServer, type EmbeddedServer } from './embedded-server.js';
import { Tables } from './tables.js';
import { randomBytes } from 'node:crypto';
import { inTransaction } from './transactions.js';

/** What a function of the database takes. Instants go as ISO 8601, JSON as text. */
export type FunctionValue = string | number | boolean | null | readonly (string | number | boolean | null)[];

/**
 * Calls a function of the database: one statement, so that no lock is held while this process is waited for. It reads
 * committed whatever the session's default is: what looks after it has taken a lock must look afresh.
 * @param name qualified
 * @returns its rows
 */
export async function callFunction<Row>(
  dataSource: DataSource,
  name: string,
  values: readonly FunctionValue[],
): Promise<Row[]> {
  const call = (given: readonly string[]) => `select * from ${name}(${given.join(', ')})`;
  const queryRunner = dataSource.createQueryRunner();
  try {
    const client = (await queryRunner.connect()) as PgSession;
    const { isReadCommitted } = await sessionOf(client);
    if (!isReadCommitted) return await readCommitted<Row>(client, call(values.map((value) => literal(value, client))));
    return [await ask(client, call(values.map((_, index) => `$${index + 1}`)), [...values])].flat()[0]!.rows as Row[];
  } finally {
    await queryRunner.release();
  }
}

const CAMEL_CASE = new Map<string, string>();

/** The names that columns have here, by those of the database. */
function camelCase(column: string): string {
  let name = CAMEL_CASE.get(column);
  if (name === undefined) {
    name = column.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
    CAMEL_CASE.set(column, name);
  }
  return name;
}

/** A row whose columns are named as properties are: `fire_time` is `fireTime`. */
function named<Row>(row: object): Row {
  return Object.fromEntries(Object.entries(row).map(([column, value]) => [camelCase(column), value])) as Row;
}

/**
 * As one message, behind a pooler whose sessions begin with another level: a message of several statements takes no
 * parameters.
 */
async function readCommitted<Row>(client: PgSession, statement: string): Promise<Row[]> {
  try {
    const results = [await ask(client, `begin isolation level read committed;\n${statement};\ncommit`)].flat();
    return results.at(-2)!.rows as Row[];
  } catch (error) {
    await client.query('rollback').catch(() => {});
    throw error;
  }
}

function literal(value: FunctionValue, client: PgSession): string {
  if (value === null || typeof value === 'boolean') return String(value);
  return client.escapeLiteral(typeof value === 'object' ? arrayLiteral(value) : String(value));
}

/** In quotes, so that an entry that is empty, or the word null, is one. */
function arrayLiteral(values: readonly (string | number | boolean | null)[]): string {
  return `{${values.map((value) => (value === null ? 'null' : `"${String(value).replace(/["\\]/g, '\\$&')}"`)).join(',')}}`;
}

/** TypeORM's options, and where they came from, for people. */
interface Connection {
  readonly options: PostgresConnection;
  readonly from: string;
}

/**
 * The module's connections: a small pool that only claims, completes and reaps, so that drained application pools
 * starve nothing, and the data source whose transactions hold receipts.
 */
export class SchedulerDatabase {
  private receiptSource: Promise<DataSource> | null = null;
  /**
   * The connections of the module's own pool for receipts, one after the other. The application's has its own queue.
   */
  readonly slots: Slots;

  private constructor(
    /** Claims, completions, reaping. Knows the entities of this library alone. */
    readonly coordination: DataSource,
    readonly tables: Tables,
    private readonly openReceipts: () => Promise<DataSource>,
    private readonly ownsReceipts: boolean,
    receiptSlots: number,
    private readonly connection: Connection,
    private readonly embedded: EmbeddedServer | null,
    private readonly readOnly: { tell: () => void },
  ) {
    this.slots = new Slots(receiptSlots);
  }

  /**
   * @param tables migrations for `migrate: true`, entities for the repositories
   * @param tell told in words while it waits for the database
   */
  static async open(
    options: ResolvedSchedulerOptions,
    { entities = [], migrations = [] }: Partial<OwnTables> = {},
    tell: (text: string) => void = () => {},
  ): Promise<SchedulerDatabase> {
    const source = options.connection;
    if (source.kind === 'dataSource') applicationSource(source.dataSource);
    const embedded = source.kind === 'embedded' ? await startEmbeddedServer() : null;
    const connection: Connection =
      source.kind === 'dataSource'
        ? { options: source.dataSource.options as PostgresConnection, from: 'forRoot({ dataSource })' }
        : source.kind === 'options'
          ? source
          : { options: { url: embedded!.url }, from: 'the embedded server' };
    const readOnly = { tell: () => {} };
    const connect = () =>
      inCleanContext(() =>
        coordinationSource(connection.options, options, { entities, migrations }, () => readOnly.tell()).initialize(),
      ).catch((error: unknown) => {
        throw unreachable(connection.from, error);
      });
    const coordination = await withPatience({ waitMs: options.waitForDatabaseMs, tell }, connect).catch(
      async (error: unknown) => {
        await embedded?.stop();
        throw error;
      },
    );
    const openReceipts =
      source.kind === 'dataSource'
        ? async () => applicationSource(source.dataSource)
        : () => inCleanContext(() => receiptSource(connection.options, options).initialize());
    return new SchedulerDatabase(
      coordination,
      new Tables(options.schema),
      openReceipts,
      source.kind !== 'dataSource',
      source.kind === 'dataSource' ? Infinity : options.receiptPoolSize,
      connection,
      embedded,
      readOnly,
    );
  }

  /** Calls a function of the scheduler's own schema on the coordination pool, as one statement. @returns its rows */
  call<Row>(name: string, values: readonly FunctionValue[]): Promise<Row[]> {
    return callFunction<Row>(this.coordination, this.tables.qualify(name), values);
  }

  /** The same, with columns named as properties are: `fire_time` is `fireTime`. */
  async rows<Row>(name: string, values: readonly FunctionValue[]): Promise<Row[]> {
    return (await this.call<object>(name, values)).map((row) => named<Row>(row));
  }

  /** Where the embedded server keeps its data while it runs; null without one. */
  get embeddedServer(): EmbeddedServer | null {
    return this.embedded;
  }

  /** @param tell told when a connection was found to lead to a server that takes no writes: others may, too */
  whenReadOnly(tell: () => void): void {
    this.readOnly.tell = tell;
  }

  /** Lets go of the connections that are at rest, because one outside the pools was found to take no writes. */
  leaveConnections(): void {
    leaveConnections(this.coordination);
  }

  /** For a connection outside the pools. */
  settings(applicationName: string): ConnectionSettings {
    return connectionSettings(this.connection.options, applicationName);
  }

  /**
   * The data source whose transactions hold receipts: the application's own, or a pool opened with the first receipt.
   */
  receipts(): Promise<DataSource> {
    this.receiptSource ??= this.openReceipts().catch((error: unknown) => {
      this.receiptSource = null;
      throw error;
    });
    return this.receiptSource;
  }

  /** Does the work on a connection outside the pools, which is closed then. */
  async aside<Result>(work: (source: DataSource) => Promise<Result>): Promise<Result> {
    const source = await asideSource(this.connection.options).initialize();
    try {
      return await work(source);
    } finally {
      await source.destroy();
    }
  }

  async close(): Promise<void> {
    const receipts = this.ownsReceipts ? await this.receiptSource?.catch(() => null) : null;
    if (receipts?.isInitialized) await receipts.destroy();
    if (this.coordination.isInitialized) await this.coordination.destroy();
    await this.embedded?.stop();
  }
}

/** Nobody waits for the lock meanwhile: its key is this look's own. */
const MOST_IDLE_MS = 5_000;

interface Theirs {
  readonly same: boolean;
  readonly role: string;
  readonly usable: boolean;
}

/**
 * Says what is in the way of receipts on another way to a database; null where nothing is. Whether it is the
 * scheduler's own is tried, not read off names or numbers, which a copy of a database shares with it: a lock that is
 * held here must be seen there.
 */
export async function problemWithDatabase(scheduler: SchedulerDatabase, target: Queryable): Promise<string | null> {
  const { tables } = scheduler;
  const lock = randomBytes(8).readBigInt64BE().toString();
  return inTransaction(scheduler.coordination, async (own) => {
    const [{ schema, receipts, runs, pages }] = (await own(
      `select set_config('idle_in_transaction_session_timeout', $2, true),
              pg_advisory_xact_lock($1::bigint),
              $3::regclass::oid::text as receipts,
              $4::regclass::oid::text as runs,
              $5::regclass::oid::text as pages,
              (select relnamespace::text from pg_class where oid = $3::regclass) as schema`,
      [lock, String(MOST_IDLE_MS), tables.receipts, tables.jobRuns, tables.jobPages],
    )) as [{ schema: string; receipts: string; runs: string; pages: string }];
    const [theirs] = await queryOn(target)<Theirs>(
      `select exists (select
                      from   pg_locks
                      where  locktype = 'advisory'
                      and    objsubid = 1
                      and    granted
                      and    database = (select oid from pg_database where datname = current_database())
                      and    (classid::bigint << 32) | objid::bigint = $1::bigint) as same,
              session_user::text as role,
              has_schema_privilege($2::oid, 'usage')
              and has_table_privilege($3::oid, 'select')
              and has_table_privilege($3::oid, 'insert')
              and has_table_privilege($3::oid, 'update')
              and has_table_privilege($4::oid, 'select')
              and has_any_column_privilege($4::oid, 'update')
              and has_table_privilege($5::oid, 'select')
              and has_any_column_privilege($5::oid, 'update')
              and not exists (select
                              from   pg_proc
                              where  pronamespace = $2::oid
                              and    proname like 'receipt\\_%'
                              and    not has_function_privilege(oid, 'execute')) as usable`,
      [lock, schema, receipts, runs, pages],
    );
    if (!theirs!.same)
      return 'is not the database of the scheduler’s tables: receipt and effect could not be committed together. Give the data source of that database';
    if (!theirs!.usable) {
      return `comes as role "${theirs!.role}", which may not write receipts: grant it usage on schema ${tables.schema}, execute on its functions, and select, insert, update on ${tables.receipts}, ${tables.jobRuns} and ${tables.jobPages}`;
    }
    const [end] = await own<{ may: boolean }>(
      `select ${tables.qualify('may_end_sessions_of_1')}(theirs.oid) as may from pg_roles theirs where rolname = $1`,
      [theirs!.role],
    );
    if (end?.may) return null;
    return (
      `comes as role "${theirs!.role}", whose sessions the scheduler’s role may not end: a process frozen in its transaction would hold its run for ever. ` +
      `Let both use one role, or grant pg_signal_backend to the scheduler’s`
    );
  });
}
