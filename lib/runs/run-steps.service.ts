import { atOnce } from '../observe/own-logger.js';
import { Injectable } from '@nestjs/common';
import type { DataSource } from 'typeorm';
import { monotonicNow } from '../database/clock.js';
import { SchedulerDatabase } from '../database/scheduler-database.js';
import { isMissingTable, isRefusedClose } from '../database/sql-state.js';
import { inMergedTransaction } from '../database/transactions.js';
import { InvalidOptionsError, occurrence, refusedByStatus, UsageError } from '../errors/errors.js';
import { afterRun, LeaseLostError, nestedTransaction, ShutdownError } from '../errors/run.errors.js';
import { readObject } from '../options/operator-options.js';
import { anything, expected, flag, type Rule, type OptionTable } from '../options/option-rules.js';
import { checkpointJson, KeptCheckpoint } from './checkpoint.js';
import type { CronRunFacts, RunSteps, RunTransactionOptions, TransactionWork } from './cron-run.js';
import { type InFlightRun, InFlightRuns } from './in-flight-runs.js';
import { released } from './outcome.js';
import { requireUnderWay, RunContext } from './run-context.js';
import { RunEndings } from './run-endings.service.js';
import { JobRunRepository } from './job-run.repository.js';

const TRANSACTION = 'CronRun.transaction';
const COMPLETE = 'CronRun.complete';
const BY_ITS_HANDLER = 'released by its handler';

/** Of what a handler says, in characters. */
const LONGEST_REASON = 500;

/** What a handler may write about its own run before it ends: where to resume, that it is done, or another's to do. */
@Injectable()
export class RunStepsService {
  constructor(
    private readonly context: RunContext,
    private readonly runs: InFlightRuns,
    private readonly store: JobRunRepository,
    private readonly endings: RunEndings,
    private readonly database: SchedulerDatabase,
  ) {}

  of(run: InFlightRun): RunSteps & Pick<CronRunFacts, 'release'> {
    const checkpoint = new KeptCheckpoint(run, this.store, () => this.lose(run));
    return {
      checkpoint,
      transaction: (work, options) => run.track(this.transaction(run, checkpoint, work, options)),
      complete: () => run.track(this.complete(run)),
      release: (reason) => this.release(run, reason),
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
    if (outer) throw nestedTransaction(outer.name, TRANSACTION);
    const inside: TransactionWork<Result> = (manager) =>
      this.context.inTransaction({ name: 'run.transaction', connection: manager.queryRunner, key: null }, () =>
        work(manager),
      );
    const transaction = new RunTransaction<Result>(
      this.store,
      run,
      plan,
      () => this.lose(run),
      () => this.beginCompletion(TRANSACTION, run, 1),
      this.database.tables.schema,
    );
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
    if (run.openWork > own)
      throw new UsageError(
        'open-work',
        `${what} would complete ${occurrence(run.owned)} while a receipt, a checkpoint or a transaction of it ` +
          'is not finished. Await all of them first; what is to commit with the completion goes through the manager of run.transaction.',
      );
    run.completing = true;
    const hasPages = run.publishes || (run.mayHavePages && (await this.store.hasPages(run.owned)));
    if (!hasPages) return;
    run.completing = false;
    throw refusedByStatus(
      'complete',
      run.owned,
      'running',
      'it has published pages, and the last of them completes it; return from the handler instead',
    );
  }

  /**
   * Hands the run over to another instance before its handler has ended, because that says that it does no more. Only
   * when the application stops: an attempt that is handed over does not count, so a handler that always did it would run
   * for ever.
   * @returns false when the run is no longer ours to hand over: its lease is lost, or it was cancelled or timed out
   * @throws OperationRefusedError while nothing asks the handler to stop, UsageError when it has ended
   */
  private async release(run: InFlightRun, reason?: string): Promise<boolean> {
    if (run.handedOver) return run.handedOver;
    if (run.ended) throw afterRun('CronRun.release', run.owned);
    if (!run.signal.aborted) {
      throw refusedByStatus(
        'release',
        run.owned,
        'running',
        'its application is not stopping; throw new RetryLater() for another attempt later',
      );
    }
    if (run.leaseLost || !(run.stopReason instanceof ShutdownError)) return false;
    run.handedOver = this.handOver(run, reason);
    run.track(run.handedOver);
    return run.handedOver;
  }

  private async handOver(run: InFlightRun, reason?: string): Promise<boolean> {
    const said = String(reason ?? '')
      .replaceAll('\0', '')
      .slice(0, LONGEST_REASON)
      .toWellFormed();
    const end = released(said ? `${BY_ITS_HANDLER}: ${said}` : BY_ITS_HANDLER);
    const written = await this.endings.write(run, end, monotonicNow() - run.startedAt);
    this.runs.forget(run);
    return written?.status === 'queued';
  }

  private completed(run: InFlightRun): void {
    this.endings.completed(run);
    this.runs.forget(run);
  }

  private lose(run: InFlightRun): LeaseLostError {
    run.completing = false;
    return this.runs.refused(run);
  }
}

/** What a committed transaction has come to. */
export interface Committed<Result> {
  readonly result: Result;
  /** The checkpoint that it saved, as JSON; null for none. */
  readonly checkpoint: string | null;
}

/**
 * One transaction of a run. Its first statement asks whether the run is still ours. So does the last, which is sent
 * with the commit: it locks the run's row, and a process that is frozen or busy before it holds the row from nobody.
 */
export class RunTransaction<Result> {
  /** What commits, once that is being sent: whether it was, is known by its answer alone. */
  prepared: Committed<Result> | null = null;
  private begun = false;

  constructor(
    private readonly store: JobRunRepository,
    private readonly run: InFlightRun,
    private readonly plan: ReadTransaction,
    /** The database has refused a statement. */
    private readonly refused: () => LeaseLostError,
    /** Called before the run is completed; throws when it may not be. */
    private readonly completing: () => Promise<void>,
    private readonly schema: string,
  ) {}

  async execute(dataSource: DataSource, work: TransactionWork<Result>): Promise<Committed<Result>> {
    const { store, run, plan } = this;
    try {
      return await inMergedTransaction(dataSource, [store.beginStep(run.owned)], async (manager, [opened]) => {
        this.begun = true;
        if (!store.isStepBegun(opened!)) throw await this.notOurs();
        const result = await work(manager);
        const checkpoint = plan.checkpoint?.(result) ?? null;
        if (plan.complete) await this.completing();
        const committed = { result, checkpoint };
        this.prepared = committed;
        return { closing: [store.endStep(run.owned, checkpoint, plan.complete)], result: committed };
      });
    } catch (error) {
      if (!this.begun && plan.in && isMissingTable(error)) throw this.elsewhere(error);
      if (!isRefusedClose(error)) throw error;
      this.prepared = null;
      throw this.refused();
    }
  }

  /**
   * Of the application's data source nobody knows where it leads: asked where the scheduler looks, the run may well be
   * ours.
   */
  private async notOurs(): Promise<Error> {
    return this.plan.in && (await this.store.checkpointOf(this.run.owned)) !== undefined
      ? this.elsewhere()
      : this.refused();
  }

  private elsewhere(cause?: unknown): UsageError {
    return new UsageError(
      'other-database',
      `${TRANSACTION}: the given data source is not on the scheduler’s database: the run is not in "${this.schema}".job_runs as it sees it. ` +
        'What commits together must be in one database.',
      { cause },
    );
  }
}

/** The options of `run.transaction`, as they were read. */
export interface ReadTransaction {
  readonly complete: boolean;
  /** The checkpoint's JSON, of what the work returned; null for none. @throws UsageError */
  readonly checkpoint: ((result: unknown) => string) | null;
  /** Null for the data source that holds receipts. */
  readonly in: DataSource | null;
}

const dataSource: Rule<DataSource> = (given) => {
  const { isInitialized, options } = (typeof given === 'object' && given !== null ? given : {}) as Partial<DataSource>;
  if (isInitialized === undefined || options?.type !== 'postgres')
    return expected('a DataSource of TypeORM for PostgreSQL', given);
  return isInitialized ? { value: given as DataSource } : { problem: 'the data source is not initialized' };
};

const OPTIONS = {
  complete: { rule: flag },
  checkpoint: { rule: anything },
  in: { rule: dataSource },
} as const satisfies OptionTable;

/**
 * A checkpoint that is undefined is refused where it is named: whoever names one counts on it.
 * @param what for people
 * @throws InvalidOptionsError with every problem, UsageError
 */
export function readTransactionOptions(given: unknown, what: string): ReadTransaction {
  const { values, problems } = readObject(given, OPTIONS);
  if (problems.length > 0) throw new InvalidOptionsError(problems.map((problem) => `${what}: ${problem}`));
  const { complete = false, checkpoint, in: source = null } = values;
  if (given === undefined || !('checkpoint' in (given as object))) return { complete, checkpoint: null, in: source };
  if (typeof checkpoint === 'function')
    return { complete, checkpoint: (result) => checkpointJson(atOnce(checkpoint(result))), in: source };
  const json = checkpointJson(checkpoint);
  return { complete, checkpoint: () => json, in: source };
}
