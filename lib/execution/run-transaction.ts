import type { DataSource } from 'typeorm';
import type { TransactionWork } from '../domain/runs/run-steps.js';
import type { LeaseLostError } from '../errors/lease-lost.error.js';
import { OtherDatabaseError } from '../errors/other-database.error.js';
import type { ReadTransaction } from '../options/transaction-options.js';
import { inMergedTransaction } from '../store/connection/merged-transaction.js';
import { isMissingTable } from '../store/connection/sql-state.js';
import { isRefusedClose } from '../store/receipts/refused-close.js';
import type { StepStore } from '../store/runs/step.store.js';
import type { InFlightRun } from './in-flight-runs.js';

/** What a committed transaction has come to. */
export interface Committed<Result> {
  readonly result: Result;
  /** The checkpoint that it saved, as JSON; null for none. */
  readonly checkpoint: string | null;
}

/**
 * One transaction of a run. Its first statement asks whether the run is still ours. So does the last, which is sent with the commit: it
 * locks the run's row, and a process that is frozen or busy before it holds the row from nobody.
 */
export class RunTransaction<Result> {
  /** What commits, once that is being sent: whether it was, is known by its answer alone. */
  prepared: Committed<Result> | null = null;
  private begun = false;

  constructor(
    private readonly store: StepStore,
    private readonly run: InFlightRun,
    private readonly plan: ReadTransaction,
    /** The database has refused a statement. */
    private readonly refused: () => LeaseLostError,
    /** Called before the run is completed; throws when it may not be. */
    private readonly completing: () => Promise<void>,
  ) {}

  async execute(dataSource: DataSource, work: TransactionWork<Result>): Promise<Committed<Result>> {
    const { store, run, plan } = this;
    try {
      return await inMergedTransaction(dataSource, [store.opening(run.owned)], async (manager, [opened]) => {
        this.begun = true;
        if (!store.isOpened(opened!)) throw await this.notOurs();
        const result = await work(manager);
        const checkpoint = plan.checkpoint && plan.checkpoint(result);
        if (plan.complete) await this.completing();
        const committed = { result, checkpoint };
        this.prepared = committed;
        return { closing: [store.closing(run.owned, checkpoint, plan.complete)], result: committed };
      });
    } catch (error) {
      if (!this.begun && plan.in && isMissingTable(error)) throw this.elsewhere(error);
      if (!isRefusedClose(error)) throw error;
      this.prepared = null;
      throw this.refused();
    }
  }

  /** Of the application's data source nobody knows where it leads: asked where the scheduler looks, the run may well be ours. */
  private async notOurs(): Promise<Error> {
    return this.plan.in && (await this.store.isOurs(this.run.owned)) ? this.elsewhere() : this.refused();
  }

  private elsewhere(cause?: unknown): OtherDatabaseError {
    return new OtherDatabaseError('CronRun.transaction', this.store.schema, { cause });
  }
}
