import { Injectable } from '@nestjs/common';
import type { RunSteps, RunTransactionOptions, TransactionWork } from '../domain/runs/run-steps.js';
import { LeaseLostError } from '../errors/lease-lost.error.js';
import { NestedReceiptError } from '../errors/nested-receipt.error.js';
import { OpenWorkError } from '../errors/open-work.error.js';
import { RunStateError } from '../errors/run-state.error.js';
import { readTransactionOptions } from '../options/transaction-options.js';
import { SchedulerDatabase } from '../store/scheduler-database.js';
import { StepStore } from '../store/runs/step.store.js';
import { HeartbeatService } from './heartbeat/heartbeat.service.js';
import { InFlightRuns, type InFlightRun } from './in-flight-runs.js';
import { KeptCheckpoint } from './kept-checkpoint.js';
import { requireUnderWay, RunContext } from './run-context.js';
import { RunEndings } from './run-endings.service.js';
import { RunTransaction } from './run-transaction.js';

const TRANSACTION = 'CronRun.transaction';
const COMPLETE = 'CronRun.complete';

/** What a handler may write about its own run before it ends: where to resume, and that it is done. */
@Injectable()
export class RunStepsService {
  constructor(
    private readonly context: RunContext,
    private readonly runs: InFlightRuns,
    private readonly store: StepStore,
    private readonly endings: RunEndings,
    private readonly heartbeat: HeartbeatService,
    private readonly database: SchedulerDatabase,
  ) {}

  of(run: InFlightRun): RunSteps {
    const checkpoint = new KeptCheckpoint(run, this.store, () => this.lose(run));
    return {
      checkpoint,
      transaction: (work, options) => run.track(this.transaction(run, checkpoint, work, options)),
      complete: () => run.track(this.complete(run)),
    };
  }

  private async transaction<Result>(
    run: InFlightRun,
    checkpoint: KeptCheckpoint,
    work: TransactionWork<Result>,
    options?: RunTransactionOptions<Result>,
  ): Promise<Result> {
    requireUnderWay(TRANSACTION, run);
    const plan = readTransactionOptions(options, TRANSACTION);
    const outer = this.context.transaction;
    if (outer) throw new NestedReceiptError(outer.name, TRANSACTION);
    const inside: TransactionWork<Result> = (manager) =>
      this.context.inTransaction({ name: 'run.transaction', connection: manager.queryRunner, key: null }, () => work(manager));
    const transaction = new RunTransaction<Result>(this.store, run, plan, () => this.lose(run), () => this.beginCompletion(TRANSACTION, run, 1));
    const execute = async () => {
      try {
        return await transaction.execute(plan.in ?? (await this.database.receipts()), inside);
      } catch (error) {
        const { prepared } = transaction;
        if (prepared?.checkpoint != null) checkpoint.wrote(undefined);
        if (prepared && plan.complete && (await this.endings.isCompleted(run))) return prepared;
        throw error;
      }
    };
    const whole = async () => {
      const committed = await (plan.in ? execute() : this.database.slots.run(execute));
      if (committed.checkpoint !== null) checkpoint.wrote(committed.checkpoint);
      if (plan.complete) this.completed(run);
      return committed.result;
    };
    return run.whileOurs(whole().finally(() => (run.completing = false)));
  }

  private async complete(run: InFlightRun): Promise<void> {
    requireUnderWay(COMPLETE, run);
    await this.beginCompletion(COMPLETE, run, 0);
    const whole = async () => {
      if (!(await this.endings.complete(run))) throw this.lose(run);
      this.completed(run);
    };
    return run.whileOurs(whole().finally(() => (run.completing = false)));
  }

  /** @param own how many pieces of the run's open work are the completion itself */
  private async beginCompletion(what: string, run: InFlightRun, own: number): Promise<void> {
    if (run.openWork > own) throw new OpenWorkError(what, run.owned);
    run.completing = true;
    // An earlier attempt may have published some, too.
    const hasPages = run.publishes || (run.owned.attempt > 1 && (await this.store.hasPages(run.owned)));
    if (!hasPages) return;
    run.completing = false;
    throw new RunStateError('complete', run.owned, 'running', 'it has published pages, and the last of them completes it; return from the handler instead');
  }

  private completed(run: InFlightRun): void {
    this.endings.completed(run);
    this.heartbeat.forget(run);
  }

  private lose(run: InFlightRun): LeaseLostError {
    run.completing = false;
    this.runs.lose(run, 'taken over');
    return run.leaseLost ?? new LeaseLostError(run.owned, 'taken over');
  }
}
