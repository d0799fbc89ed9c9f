import { AsyncLocalStorage } from 'node:async_hooks';
import { Injectable } from '@nestjs/common';
import { InvalidOptionsError } from '../errors/errors.js';
import { afterRun, outsideRun } from '../errors/run.errors.js';
import { CronRun } from './cron-run.js';
import { inCleanContext } from '../database/loop.js';
import type { ReceiptKey } from '../options/run.js';
import type { InFlightRun } from './in-flight-runs.js';

/** A transaction that code is inside of. */
export interface OpenTransaction {
  /** As it is written in code. */
  readonly name: string;
  /** What its statements go through: the manager's query runner. */
  readonly connection: unknown;
  /** Of the receipt it is for; null for none. */
  readonly key: ReceiptKey | null;
  readonly around: OpenTransaction | undefined;
}

/** Which run the code that asks belongs to, without passing it along. */
@Injectable()
export class RunContext {
  private readonly storage = new AsyncLocalStorage<InFlightRun>();
  private readonly transactions = new AsyncLocalStorage<OpenTransaction>();
  private readonly given = new WeakMap<CronRun, InFlightRun>();
  private readonly handed = new WeakMap<InFlightRun, CronRun>();

  /** Everything the handler awaits belongs to the run, and so does what is given its `CronRun` later. */
  enter<Result>(run: InFlightRun, cronRun: CronRun, handler: (cronRun: CronRun) => Promise<Result>): Promise<Result> {
    this.given.set(cronRun, run);
    this.handed.set(run, cronRun);
    return inCleanContext(() => this.storage.run(run, () => handler(cronRun)));
  }

  /** The run whose handler is under way here; undefined outside of one. */
  get current(): InFlightRun | undefined {
    const run = this.storage.getStore();
    return run?.ended ? undefined : run;
  }

  /** What its handler was given. */
  get cronRun(): CronRun | undefined {
    const run = this.current;
    return run && this.handed.get(run);
  }

  /** The transaction that the code here is inside of; undefined outside of one. */
  get transaction(): OpenTransaction | undefined {
    return this.transactions.getStore();
  }

  /** What the work calls knows which transaction is around it. */
  inTransaction<Result>(transaction: Omit<OpenTransaction, 'around'>, work: () => Result): Result {
    return this.transactions.run({ ...transaction, around: this.transaction }, work);
  }

  /**
   * @param what who asks, for the error's sentence
   * @throws UsageError outside a run or after it
   */
  require(what: string): InFlightRun {
    const run = this.storage.getStore();
    if (!run) throw outsideRun(what);
    return requireNotEnded(what, run);
  }

  /**
   * The run that work belongs to: the one it was given, for code that lost its context, or the one it is called in.
   * @throws UsageError outside a run or after it; InvalidOptionsError for what is no CronRun
   */
  runFor(what: string, given: unknown): InFlightRun {
    if (given === undefined) return this.require(what);
    if (!(given instanceof CronRun)) {
      throw new InvalidOptionsError([
        `run: expected the CronRun of a handler; for an occurrence that this process does not run there is onceForOccurrence()`,
      ]);
    }
    const run = this.given.get(given);
    if (!run || run.ended) throw afterRun(what, given);
    return run;
  }
}

/** Inject it where the run is not passed along: a logger, a tenant, a repository. */
@Injectable()
export class SchedulerContext {
  constructor(private readonly context: RunContext) {}

  /** The run whose handler called this code, at any depth; undefined outside of one, and when it has ended. */
  get run(): CronRun | undefined {
    return this.context.cronRun;
  }
}

/** @throws UsageError, LeaseLostError */
export function requireUnderWay(what: string, run: InFlightRun): void {
  requireNotEnded(what, run);
  if (run.leaseLost) throw run.leaseLost;
}

function requireNotEnded(what: string, run: InFlightRun): InFlightRun {
  if (run.ended) throw afterRun(what, run.owned);
  if (run.settled && run.handedOver) throw afterRun(what, run.owned, 'release');
  if (run.settled || run.completing) throw afterRun(what, run.owned, 'completion');
  return run;
}
