import type { DataSource, EntityManager } from 'typeorm';
import { outsideRun } from '../errors/run.errors.js';
import type { JobDefinition } from '../options/job-definition.js';
import type { RunTrigger } from '../options/run.js';
import { DEFAULT_EFFECT, idempotencyKey } from './idempotency-key.js';
import type { InFlightRun } from './in-flight-runs.js';

/**
 * What an attempt leaves for the next one of the same occurrence: where to resume. One JSON value, kept with the run.
 */
export interface RunCheckpoint {
  /**
   * What was saved last, in this attempt or an earlier one; undefined when nothing was. It is a copy: changing it
   * changes nothing. A `Date` that was saved comes back as text.
   * @throws UsageError, LeaseLostError
   */
  get<Saved = unknown>(): Promise<Saved | undefined>;
  /**
   * Keeps the value as it is at the call. Of several calls that are not awaited the last one wins. At most 1 MiB of
   * JSON.
   * @throws UsageError when the value is no JSON, or too large
   * @throws UsageError, LeaseLostError; nothing was saved
   */
  save(value: unknown): Promise<void>;
  /** Forgets what was saved. @throws UsageError, LeaseLostError */
  clear(): Promise<void>;
}

/** What commits with the writes of `run.transaction`. */
export interface RunTransactionOptions<Result = unknown> {
  /** The run's completion: it is done when the transaction has committed, and the handler may return. @default false */
  readonly complete?: boolean;
  /** A checkpoint, or a function that makes it of what the work returned. @default none */
  readonly checkpoint?: object | string | number | boolean | null | ((result: Result) => unknown);
  /** A data source of the application's, on the scheduler's database. @default the one that holds receipts */
  readonly in?: DataSource;
}

/** The work of a run's transaction. What it writes through the manager commits, or nothing does. */
export type TransactionWork<Result> = (manager: EntityManager) => Promise<Result> | Result;

/** What a `CronRun` does with its row. */
export interface RunSteps {
  readonly checkpoint: RunCheckpoint;
  transaction<Result>(work: TransactionWork<Result>, options?: RunTransactionOptions<Result>): Promise<Result>;
  complete(): Promise<void>;
}

/** What a `CronRun` is made of. */
export interface CronRunFacts {
  readonly jobName: string;
  readonly fireTime: Date;
  /** Computed when it is asked for. */
  readonly previousFireTime: () => Date | null;
  readonly attempt: number;
  readonly trigger: RunTrigger;
  readonly data: unknown;
  readonly signal: AbortSignal;
  /** What idempotency keys are made with. @default '' in a run that a test makes */
  readonly secret?: string;
  /** Asked at each look: the heartbeat moves it. */
  readonly leaseUntil: () => Date;
  /** See `CronRun.release`. Left out where there is nothing to hand over: in a page, whose queue delivers it again. */
  readonly release?: (reason?: string) => Promise<boolean>;
  /** Left out, the run has no row: checkpoint, transaction and completion are refused. */
  readonly steps?: RunSteps;
}

/**
 * One attempt at one occurrence, as its handler sees it.
 * @typeParam Data what the handler's jobs are given as `data`: said by the handler, and not checked when it runs
 */
export class CronRun<Data = unknown> {
  readonly jobName: string;
  /** The instant the occurrence was due: the same for every attempt, wherever it runs. */
  readonly fireTime: Date;
  /** 1, 2, …; for the handler of a page, the page's. */
  readonly attempt: number;
  /**
   * `schedule`: at its time. `catch-up`: later, after a gap. `backfill`: because an operator asked for past
   * occurrences.
   * `manual`: because somebody asked for a run; its fire time is when. `external`:
   * because it was delivered.
   */
  readonly trigger: RunTrigger;
  /**
   * What a job made at run time, or this run when somebody asked for it or delivered it, was given for the handler;
   * undefined otherwise.
   */
  readonly data: Data;
  /**
   * Aborts when the run is no longer this process' (`signal.reason` is a `LeaseLostError`), when it has taken the time
   * its job allows (`TimeoutError`), when somebody cancelled it (`CancelledError`), and when the application stops and
   * the time for running handlers is over (`ShutdownError`). Nothing written through receipts is accepted after a lost
   * lease, but the answer to a call that was under way.
   */
  readonly signal: AbortSignal;
  readonly #facts: CronRunFacts;

  constructor(facts: CronRunFacts) {
    this.jobName = facts.jobName;
    this.fireTime = facts.fireTime;
    this.attempt = facts.attempt;
    this.trigger = facts.trigger;
    this.data = facts.data as Data;
    this.signal = facts.signal;
    this.#facts = facts;
  }

  /**
   * Until when the run is safe without another heartbeat, by the database's clock. A page has no lease: the last
   * instant there is.
   */
  get leaseUntil(): Date {
    return this.#facts.leaseUntil();
  }

  /**
   * Hands the run over to another instance, which starts it at once, when the application stops and the signal says so:
   * the handler does no more, though it may need a moment to tidy up. The attempt does not count; its receipts are
   * refused from now on, and what the handler returns or throws later changes nothing. A handler that does not call it
   * hands its run over when it ends.
   * @param reason kept in the run's row
   * @returns false when the run is no longer this process' to hand over: its lease is lost, or it was cancelled or
   * timed out
   * @throws OperationRefusedError while the signal is not aborted, UsageError when the handler has ended
   */
  release(reason?: string): Promise<boolean> {
    if (!this.#facts.release) throw outsideRun('CronRun.release');
    return this.#facts.release(reason);
  }

  /** The fire time before this one, whether or not it ran; null when there is none. */
  get previousFireTime(): Date | null {
    return this.#facts.previousFireTime();
  }

  /**
   * A key for one effect on one entity in this occurrence, for services that drop repeated requests (Stripe's
   * `Idempotency-Key`, a mail's `Message-ID`): the same on every attempt and every replica, and for nobody else to
   * guess.
   * `ReceiptService.onceExternal` gives its call this key.
   */
  idempotencyKey(entity: string | number | bigint, effect: string = DEFAULT_EFFECT): string {
    return idempotencyKey(this.#facts.secret ?? '', this, String(entity), effect);
  }

  /** Where the next attempt resumes: saved with the run, and refused once the run is another's. */
  get checkpoint(): RunCheckpoint {
    return this.steps('CronRun.checkpoint').checkpoint;
  }

  /**
   * Runs the work in one transaction in which the run's ownership is checked: it commits while the run is this
   * process', or not at all. With `checkpoint` the step and the place to resume from commit together, with `complete`
   * the work and the run's completion. When the run's lease ends, the reaper ends the transaction, wherever its process
   * is frozen.
   *
   * After a completion the handler may go on, without the run: its next occurrence may begin, on any replica.
   *
   * @returns what the work returned
   * @throws what the work threw; nothing was written
   * @throws LeaseLostError when the run is no longer this process'; nothing was written
   * @throws UsageError, InvalidOptionsError
   * @throws UsageError inside a receipt's effect or another transaction of the run
   * @throws UsageError when the run would be completed while other work of it is not awaited
   * @throws UsageError when `in` is on another database than the scheduler
   */
  transaction<Result>(work: TransactionWork<Result>, options?: RunTransactionOptions<Result>): Promise<Result> {
    return this.steps('CronRun.transaction').transaction(work, options);
  }

  /**
   * Completes the run now, before its handler returns: what comes after it fails nothing, and a signal that was aborted
   * does not make the run one that was stopped. Tried again while the database is out of reach and the lease holds.
   * @throws LeaseLostError, UsageError
   */
  complete(): Promise<void> {
    return this.steps('CronRun.complete').complete();
  }

  private steps(what: string): RunSteps {
    if (!this.#facts.steps) throw outsideRun(what);
    return this.#facts.steps;
  }
}

/** What a handler learns about its run, whether it has the whole occurrence or a page of it. */
export function cronRunFacts(run: InFlightRun, definition: JobDefinition, secret: string): CronRunFacts {
  const { jobName, fireTime, attempt, trigger } = run.owned;
  return {
    jobName,
    fireTime,
    previousFireTime: () => {
      const previous = definition.schedule.previousBefore(fireTime.getTime());
      return previous === null ? null : new Date(previous);
    },
    attempt,
    trigger,
    data: run.owned.data ?? definition.data,
    signal: run.signal,
    secret,
    leaseUntil: () => run.leaseUntil,
  };
}
