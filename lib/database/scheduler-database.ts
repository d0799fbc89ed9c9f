import type { DataSource } from 'typeorm';
import type { PostgresConnection } from '../options/scheduler-options.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { unreachable } from '../errors/database-trouble.js';
import { inCleanContext } from './clean-context.js';
import { Slots } from './collections.js';
import { connectionSettings, type ConnectionSettings } from './client-config.js';
import {
  applicationSource,
  asideSource,
  coordinationSource,
  leaveConnections,
  receiptSource,
  type MigrationClass,
} from './data-sources.js';
import { callFunction, type FunctionValue } from './call-function.js';
import { withPatience } from './patience.js';
import { startEmbeddedServer, type EmbeddedServer } from './embedded-server.js';
import { Tables } from './tables.js';

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
   * @param migrations the library's, for `migrate: true`
   * @param tell told in words while it waits for the database
   */
  static async open(
    options: ResolvedSchedulerOptions,
    migrations: MigrationClass[],
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
        coordinationSource(connection.options, options, migrations, () => readOnly.tell()).initialize(),
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
