import { DataSource, type MigrationInterface } from 'typeorm';
import type { PostgresConnection } from '../options/scheduler-options.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { DatabaseConnectionError } from '../errors/database-connection.error.js';
import { connectionSettings, type ConnectionSettings } from './client-config.js';
import { startEmbeddedServer, type EmbeddedServer } from './embedded-server.js';
import { JobRun } from './job-run.entity.js';
import { JobSchedule } from './job-schedule.entity.js';
import { Receipt } from './receipt.entity.js';
import { Tables } from './tables.js';

type MigrationClass = new () => MigrationInterface;

const ENTITIES = [JobSchedule, JobRun, Receipt];

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

  private constructor(
    /** Claims, completions, reaping. Knows the entities of this library alone. */
    readonly coordination: DataSource,
    readonly tables: Tables,
    private readonly openReceipts: () => Promise<DataSource>,
    private readonly ownsReceipts: boolean,
    private readonly connection: Connection,
    private readonly embedded: EmbeddedServer | null,
  ) {}

  /** @param migrations the library's, for `migrate: true` */
  static async open(options: ResolvedSchedulerOptions, migrations: MigrationClass[]): Promise<SchedulerDatabase> {
    const source = options.connection;
    const embedded = source.kind === 'embedded' ? await startEmbeddedServer() : null;
    const connection: Connection =
      source.kind === 'dataSource'
        ? { options: source.dataSource.options as PostgresConnection, from: 'forRoot({ dataSource })' }
        : source.kind === 'options'
          ? source
          : { options: { url: embedded!.url }, from: 'the embedded server' };
    const coordination = coordinationSource(connection.options, options, migrations);
    try {
      await coordination.initialize();
    } catch (error) {
      await embedded?.stop();
      throw new DatabaseConnectionError(connection.from, error);
    }
    const openReceipts =
      source.kind === 'dataSource'
        ? async () => applicationSource(source.dataSource)
        : () => receiptSource(connection.options, options).initialize();
    return new SchedulerDatabase(
      coordination,
      new Tables(options.schema),
      openReceipts,
      source.kind !== 'dataSource',
      connection,
      embedded,
    );
  }

  /** Where the embedded server keeps its data while it runs; null without one. */
  get embeddedServer(): EmbeddedServer | null {
    return this.embedded;
  }

  /** For a connection outside the pools. */
  settings(applicationName: string): ConnectionSettings {
    return connectionSettings(this.connection.options, applicationName);
  }

  /** The data source whose transactions hold receipts: the application's own, or a pool opened with the first receipt. */
  receipts(): Promise<DataSource> {
    this.receiptSource ??= this.openReceipts().catch((error: unknown) => {
      this.receiptSource = null;
      throw error;
    });
    return this.receiptSource;
  }

  async close(): Promise<void> {
    const receipts = this.ownsReceipts ? await this.receiptSource?.catch(() => null) : null;
    if (receipts?.isInitialized) await receipts.destroy();
    if (this.coordination.isInitialized) await this.coordination.destroy();
    await this.embedded?.stop();
  }
}

function coordinationSource(connection: PostgresConnection, options: ResolvedSchedulerOptions, migrations: MigrationClass[]): DataSource {
  return new DataSource({
    ...own(connection, options.poolSize),
    schema: options.schema,
    entities: ENTITIES,
    migrations,
    migrationsTableName: 'distributed_cron_migrations',
  });
}

function receiptSource(connection: PostgresConnection, options: ResolvedSchedulerOptions): DataSource {
  return new DataSource({ ...own(connection, options.receiptPoolSize), entities: connection.entities ?? [] });
}

function applicationSource(dataSource: DataSource): DataSource {
  if (!dataSource.isInitialized) {
    throw new DatabaseConnectionError('forRoot({ dataSource })', new Error('the data source is not initialized; initialize it before the application starts'));
  }
  return dataSource;
}

/** The given settings for a pool of this module: nothing of the application's schema work comes along. */
function own(connection: PostgresConnection, poolSize: number) {
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
    connectTimeoutMS: connection.connectTimeoutMS ?? 10_000,
    poolErrorHandler: () => {},
    extra: { keepAlive: true, ...connection.extra, max: poolSize, allowExitOnIdle: true },
  };
}
