import type { DataSource, EntityManager } from 'typeorm';
import type { TransactionWork } from '../domain/runs/run-steps.js';
import type { LeaseLostError } from '../errors/lease-lost.error.js';
import { OtherDatabaseError } from '../errors/other-database.error.js';
import type { ReadTransaction } from '../options/transaction-options.js';
import { inReceiptTransaction, type Bounded } from '../store/receipts/receipt-transaction.js';
import { isMissingTable } from '../store/connection/sql-state.js';
import type { StepStore } from '../store/runs/step.store.js';
import type { InFlightRun } from './in-flight-runs.js';

/** What a committed transaction has come to. */
export interface Committed<Result> {
  readonly result: Result;
  /** The checkpoint that it saved, as JSON; null for none. */
  readonly checkpoint: string | null;
}

/** One transaction of a run: opened and ended by statements that ask whether the run is still ours. */
export class RunTransaction<Result> {
  /** What commits, once its last statement was accepted: what fails from then on is the commit, whose answer may be lost. */
  prepared: Committed<Result> | null = null;

  constructor(
    private readonly store: StepStore,
    private readonly run: InFlightRun,
    private readonly plan: ReadTransaction,
    /** The database has refused a statement. */
    private readonly refused: () => LeaseLostError,
    /** Called before the run is completed; throws when it may not be. */
    private readonly completing: () => Promise<void>,
  ) {}

  execute(dataSource: DataSource, work: TransactionWork<Result>): Promise<Committed<Result>> {
    return inReceiptTransaction(dataSource, async (manager, bounded) => {
      this.prepared = null;
      await this.open(manager, bounded);
      const result = await work(manager);
      const committed = { result, checkpoint: this.plan.checkpoint && this.plan.checkpoint(result) };
      if (!(await this.close(manager, bounded, committed.checkpoint))) throw this.refused();
      return (this.prepared = committed);
    });
  }

  private async open(manager: EntityManager, bounded: Bounded): Promise<void> {
    const { owned } = this.run;
    const opened = await bounded(this.store.open(manager, owned)).catch((error: unknown) => {
      throw this.plan.in && isMissingTable(error) ? this.elsewhere(error) : error;
    });
    if (opened) return;
    // Of the application's data source nobody knows where it leads: asked where the scheduler looks, the run may well be ours.
    if (this.plan.in && (await this.store.isOurs(owned))) throw this.elsewhere();
    throw this.refused();
  }

  private async close(manager: EntityManager, bounded: Bounded, checkpoint: string | null): Promise<boolean> {
    const { store, run } = this;
    if (this.plan.complete) {
      await this.completing();
      return bounded(store.complete(manager, run.owned, checkpoint));
    }
    return bounded(checkpoint === null ? store.hold(manager, run.owned) : store.save(run.owned, checkpoint, manager));
  }

  private elsewhere(cause?: unknown): OtherDatabaseError {
    return new OtherDatabaseError('CronRun.transaction', this.store.schema, { cause });
  }
}
