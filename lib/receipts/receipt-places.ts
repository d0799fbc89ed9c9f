import { Injectable } from '@nestjs/common';
import type { DataSource, EntityManager } from 'typeorm';
import { UsageError } from '../errors/errors.js';
import { LeaseLostError, nestedTransaction } from '../errors/run.errors.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import type { ReceiptKey } from '../options/run.js';
import { Slots } from '../database/collections.js';
import { PartitionStore } from '../database/partition.store.js';
import { type JoinedManager, onReceiptConnection } from '../database/transactions.js';
import { problemWithDatabase, SchedulerDatabase } from '../database/scheduler-database.js';
import { type InFlightRun, InFlightRuns } from '../runs/in-flight-runs.js';
import { type OpenTransaction, RunContext } from '../runs/run-context.js';

/** A transaction of the receipt's own. */
export interface OwnPlace {
  readonly kind: 'own';
  readonly dataSource: DataSource;
  readonly slots: Slots;
}

/** Where a receipt is written: in a transaction of its own, or in one of the application's. */
export type ReceiptPlace = OwnPlace | { readonly kind: 'joined'; readonly manager: JoinedManager };

/** What a receipt's `in` may be. */
export type ReceiptIn = DataSource | EntityManager;

/** The application's pool has a queue of its own. */
const NO_SLOTS = new Slots(Infinity);

/** Decides to which run receipts belong, where they are written, and which may be written inside another's effect. */
@Injectable()
export class ReceiptPlaces {
  private readonly tried = new WeakSet<DataSource>();
  private readonly turns = new WeakMap<object, Promise<unknown>>();

  constructor(
    private readonly database: SchedulerDatabase,
    private readonly context: RunContext,
    private readonly partitions: PartitionStore,
    private readonly runs: InFlightRuns,
    private readonly events: SchedulerEvents,
  ) {}

  /** See `RunContext.runFor`. */
  runFor(what: string, given: unknown): InFlightRun {
    return this.context.runFor(what, given);
  }

  /** The database has refused a receipt: the run's handler is told. @returns what is to be thrown */
  refused(run: InFlightRun, key: ReceiptKey): LeaseLostError {
    const { jobName, fireTime, attempt } = run.owned;
    this.events.emit({ type: 'receipt.refused', jobName, fireTime, attempt, ...key });
    return this.runs.refused(run);
  }

  /** Does the work again once the partition of the receipts is there. */
  makingSure<Result>(fireTime: Date, work: () => Promise<Result>): Promise<Result> {
    return this.partitions.makingSure(() => [fireTime], work);
  }

  /** One statement of a receipt that is in no transaction with others, on the default connection for receipts. */
  alone<Result>(statement: (manager: EntityManager) => Promise<Result>): Promise<Result> {
    return this.database.slots.run(async () =>
      onReceiptConnection(await this.database.receipts(), ({ manager }, bounded) => bounded(statement(manager))),
    );
  }

  /**
   * @param key of the receipt that is to be written there
   * @param call who asks, for the error's sentence
   * @throws UsageError
   */
  async find(given: unknown, key: ReceiptKey, call = `once("${key.entity}")`): Promise<ReceiptPlace> {
    const around = this.context.transaction;
    const manager = given === undefined || isDataSource(given) ? undefined : joinable(given);
    if (around && (around.connection !== manager?.queryRunner || within(around, key)))
      throw nestedTransaction(around.name, `ReceiptService.${call}`);
    if (manager) {
      if (!around) await this.requireSame(dataSourceOf(manager), manager);
      return { kind: 'joined', manager };
    }
    const own = await this.database.receipts();
    if (given === undefined) return { kind: 'own', dataSource: own, slots: this.database.slots };
    const dataSource = given as DataSource;
    if (!dataSource.isInitialized)
      throw invalidPlace('is a data source that is not initialized: await its initialize() before');
    await this.requireSame(dataSource, dataSource);
    return { kind: 'own', dataSource, slots: dataSource === own ? this.database.slots : NO_SLOTS };
  }

  /** True when a receipt given that joins a transaction which is not its own to end. */
  joins(given: unknown): boolean {
    return given !== undefined && !isDataSource(given);
  }

  /** Does the effect as that of the receipt: what is called in it knows what is around it. */
  inside<Result>(key: ReceiptKey, manager: EntityManager, effect: () => Result): Result {
    return this.context.inTransaction({ name: `once("${key.entity}")`, connection: manager.queryRunner, key }, effect);
  }

  /** One after the other on one connection: what began later would be taken back with what began before it. */
  inTurn<Result>({ queryRunner }: JoinedManager, work: () => Promise<Result>): Promise<Result> {
    const frame = this.context.transaction;
    const line: object = frame?.connection === queryRunner ? frame! : queryRunner;
    const mine = (this.turns.get(line) ?? Promise.resolve()).then(work);
    this.turns.set(
      line,
      mine.catch(() => {}),
    );
    return mine;
  }

  /** Once for each data source: whether it leads to the scheduler's tables. */
  private async requireSame(dataSource: DataSource, target: ReceiptIn): Promise<void> {
    if (this.tried.has(dataSource) || dataSource === (await this.database.receipts())) return;
    if (dataSource.options.type !== 'postgres')
      throw invalidPlace(`is of type "${dataSource.options.type}", not "postgres"`);
    const problem = await problemWithDatabase(this.database, target);
    if (problem !== null) throw invalidPlace(problem);
    this.tried.add(dataSource);
  }
}

/** What `in` names can't hold a receipt. */
export function invalidPlace(problem: string): UsageError {
  return new UsageError('receipt-place', `The option "in" of a receipt ${problem}.`);
}

function within(frame: OpenTransaction | undefined, { entity, effect }: ReceiptKey): boolean {
  return (
    frame !== undefined &&
    ((frame.key?.entity === entity && frame.key.effect === effect) || within(frame.around, { entity, effect }))
  );
}

function isDataSource(given: unknown): given is DataSource {
  return typeof (given as DataSource | null)?.createQueryRunner === 'function';
}

function joinable(given: unknown): JoinedManager {
  const manager = given as Partial<EntityManager> | null;
  if (typeof manager?.transaction !== 'function')
    throw invalidPlace('must be a DataSource or an EntityManager of TypeORM');
  if (!manager.queryRunner?.isTransactionActive) {
    throw invalidPlace(
      'is an EntityManager without a transaction under way. Give the one that dataSource.transaction() hands to its function, or the DataSource for a transaction of the receipt’s own',
    );
  }
  return manager as JoinedManager;
}

/** TypeORM 1 named anew what 0.3 calls `connection`. */
function dataSourceOf(manager: EntityManager): DataSource {
  return manager.dataSource ?? (manager as { connection: DataSource }).connection;
}
