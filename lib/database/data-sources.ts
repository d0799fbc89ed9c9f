import { DataSource, type MigrationInterface } from 'typeorm';
import { unreachable } from '../errors/database-trouble.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import type { PostgresConnection } from '../options/scheduler-options.js';
import { CONNECT_TIMEOUT_MS, KEEP_ALIVE } from './query.js';
import { clientOf, Connections, clientWithPatience } from './clients.js';

/** What TypeORM is told of this library's tables. */
export interface OwnTables {
  readonly entities: (new () => object)[];
  readonly migrations: (new () => MigrationInterface)[];
}

/** Where TypeORM notes which of the library's migrations have run. */
export const MIGRATIONS_TABLE = 'distributed_cron_migrations';

const connections = new WeakMap<DataSource, Connections>();

/** Longer than any statement of this library takes, in milliseconds. */
const MOST_PATIENCE_MS = 15_000;

/** A large file is not gone at once, in milliseconds. */
const ASIDE_PATIENCE_MS = 120_000;

/**
 * Claims, completes, reaps: small, impatient, and with the entities of this library alone.
 * @param whenReadOnly told when a connection of it was found to take no writes
 */
export function coordinationSource(
  connection: PostgresConnection,
  options: ResolvedSchedulerOptions,
  tables: OwnTables,
  whenReadOnly: () => void,
): DataSource {
  const open = new Connections(whenReadOnly);
  const source = new DataSource({
    ...own(lasting(connection, options.poolSize), options.poolSize, {
      Client: clientWithPatience(MOST_PATIENCE_MS, open),
    }),
    schema: options.schema,
    ...tables,
    migrationsTableName: MIGRATIONS_TABLE,
  });
  connections.set(source, open);
  return source;
}

/** How many connections the source has lost so far: ended by the server, or on the way to it. */
export function lostConnections(source: DataSource): number {
  return connections.get(source)?.lost ?? 0;
}

/**
 * Breaks the source's connections, so that nobody waits any longer for a database that does not answer: a claim whose
 * answer came after the end would start a handler.
 */
export function abandonConnections(source: DataSource): void {
  connections.get(source)?.abandon(new Error('The scheduler has stopped, and waits no longer for the database'));
}

/**
 * Lets go of the source's connections that are at rest: somebody else has found that they lead to a server that takes
 * no writes.
 */
export function leaveConnections(source: DataSource): void {
  connections.get(source)?.leave();
}

/** Holds receipts and what the application writes with them. */
export function receiptSource(connection: PostgresConnection, options: ResolvedSchedulerOptions): DataSource {
  return new DataSource({
    ...own(connection, options.receiptPoolSize, { Client: clientOf(new Connections()) }),
    entities: connection.entities ?? [],
  });
}

/** One connection, for what takes long and makes no claim wait. */
export function asideSource(connection: PostgresConnection): DataSource {
  return new DataSource({ ...own(connection, 1, { Client: clientWithPatience(ASIDE_PATIENCE_MS) }), entities: [] });
}

/** @throws SetupError when the application has not initialized it */
export function applicationSource(dataSource: DataSource): DataSource {
  if (!dataSource.isInitialized) {
    throw unreachable(
      'forRoot({ dataSource })',
      new Error('the data source is not initialized; initialize it before the application starts'),
    );
  }
  return dataSource;
}

/**
 * A claim and an end that are sent at the same time find a connection, on whose session their functions are planned: to
 * make a new one takes the database longer than both. All of them last from one look to the next. An older pg knows no
 * `min`.
 */
function lasting(connection: PostgresConnection, poolSize: number): PostgresConnection {
  return { ...connection, extra: { min: Math.min(2, poolSize), idleTimeoutMillis: 60_000, ...connection.extra } };
}

/** The given settings for a pool of this module: nothing of the application's schema work comes along. */
function own(connection: PostgresConnection, poolSize: number, extra: object = {}) {
  return {
    ...connection,
    type: 'postgres' as const,
    name: undefined,
    synchronize: false,
    dropSchema: false,
    migrationsRun: false,
    migrations: [],
    subscribers: [],
    cache: false,
    logging: false as const,
    poolSize,
    applicationName: connection.applicationName ?? 'nestjs-distributed-cron',
    connectTimeoutMS: connection.connectTimeoutMS ?? CONNECT_TIMEOUT_MS,
    poolErrorHandler: () => {},
    extra: { ...KEEP_ALIVE, ...connection.extra, max: poolSize, allowExitOnIdle: true, ...extra },
  };
}
