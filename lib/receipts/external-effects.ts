import { atOnce } from '../observe/own-logger.js';
import { AsyncLocalStorage } from 'node:async_hooks';
import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { InvalidOptionsError } from '../errors/errors.js';
import { EffectNotDone, mixedReceipt } from '../errors/run.errors.js';
import { databaseTrouble } from '../errors/database-trouble.js';
import { describeError, plainError, storableJson, type StoredError } from '../errors/stored-error.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { againOnConflict, retry } from '../database/retry.js';
import { isRefusedData } from '../database/sql-state.js';
import type { ReceiptKey } from '../options/run.js';
import { IdempotencyKeys } from '../runs/idempotency-key.js';
import { type InFlightRun, InFlightRuns } from '../runs/in-flight-runs.js';
import type { InDoubtPolicy } from './receipt-options.js';
import { ReceiptPlaces } from './receipt-places.js';
import { type CallAnswer, ReceiptRepository } from './receipt.repository.js';

/**
 * Makes the effect, under a key that is the same at every attempt and on every replica.
 * @param signal the run's: give it to `fetch`
 */
export type ExternalCall<Answer> = (idempotencyKey: string, signal: AbortSignal) => Promise<Answer> | Answer;

/** What became of an effect outside the database. */
export type ExternalOutcome<Answer> =
  /** The call was made now, and answered. */
  | { readonly applied: true; readonly inDoubt: false; readonly result: Answer }
  /** It had been answered already. The result is what it answered then, as JSON, if that was at most 64 kB. */
  | { readonly applied: false; readonly inDoubt: false; readonly result: Answer | undefined }
  /** Nobody knows whether it happened: a person finds out. */
  | { readonly applied: false; readonly inDoubt: true; readonly result: undefined };

/** How the calls of one `onceExternal` are made. */
export interface CallPlan<Answer> {
  readonly call: ExternalCall<Answer>;
  readonly policy: InDoubtPolicy;
  readonly notDone: (error: unknown) => boolean;
}

/** Effects outside the database: a receipt is opened before the call and closed after it. */
@Injectable()
export class ExternalEffects {
  private readonly underWay = new Map<string, Promise<unknown>>();
  /** The receipts of the calls that code is inside of. */
  private readonly inside = new AsyncLocalStorage<readonly string[]>();

  constructor(
    private readonly runs: InFlightRuns,
    private readonly receipts: ReceiptRepository,
    private readonly places: ReceiptPlaces,
    private readonly keys: IdempotencyKeys,
    private readonly events: SchedulerEvents,
  ) {}

  /**
   * One call at a time for each receipt of an attempt: one that is found open was cut off.
   * @throws InvalidOptionsError for what is no call, and for one inside itself: it would wait for its own end
   */
  async once<Answer>(run: InFlightRun, key: ReceiptKey, plan: CallPlan<Answer>): Promise<ExternalOutcome<Answer>> {
    const name = JSON.stringify([run.id, run.owned.attempt, key.entity, key.effect]);
    const around = this.inside.getStore() ?? [];
    const problem =
      typeof plan.call !== 'function'
        ? 'the call: expected a function'
        : around.includes(name)
          ? 'it was called inside its own call'
          : null;
    if (problem !== null) throw new InvalidOptionsError([`ReceiptService.onceExternal("${key.entity}"): ${problem}`]);
    while (this.underWay.has(name)) await this.underWay.get(name);
    const work = this.inside.run([...around, name], () => this.carryOut(run, key, plan));
    const ended = work.then(
      () => {},
      () => {},
    );
    this.underWay.set(name, ended);
    void ended.then(() => this.underWay.delete(name));
    return work;
  }

  private async carryOut<Answer>(
    run: InFlightRun,
    key: ReceiptKey,
    plan: CallPlan<Answer>,
  ): Promise<ExternalOutcome<Answer>> {
    // A call that is begun now would be aborted at once, and be in doubt for nothing.
    run.signal.throwIfAborted();
    const { jobName, fireTime, attempt } = run.owned;
    const answer = await this.open(run, key, plan);
    switch (answer.kind) {
      case 'there':
        this.events.emit({ type: 'receipt.duplicate', jobName, fireTime, attempt, ...key });
        return { applied: false, inDoubt: false, result: answer.result as Answer | undefined };
      case 'in doubt':
        if (answer.parked) this.tellInDoubt(run, key, answer.attempt, answer.error);
        return { applied: false, inDoubt: true, result: undefined };
      case 'mixed':
        throw mixedReceipt(key.entity, key.effect, 'once');
      case 'refused':
        throw this.places.refused(run, key);
      case 'opened':
        if (answer.again) this.events.emit({ type: 'effect.resent', jobName, fireTime, attempt, ...key });
        return { applied: true, inDoubt: false, result: await this.call(run, key, plan, answer.idempotencyKey) };
    }
  }

  private open<Answer>(run: InFlightRun, key: ReceiptKey, { policy }: CallPlan<Answer>): Promise<CallAnswer> {
    const idempotencyKey = this.keys.of(run.owned, key.entity, key.effect);
    const opening = (manager: EntityManager) => this.receipts.openCall(manager, run.owned, key, idempotencyKey, policy);
    return this.places.makingSure(run.owned.fireTime, () => againOnConflict(run, () => this.places.alone(opening)));
  }

  private async call<Answer>(
    run: InFlightRun,
    key: ReceiptKey,
    plan: CallPlan<Answer>,
    idempotencyKey: string,
  ): Promise<Answer> {
    if (this.isOver(run)) {
      await this.failed(
        run,
        key,
        plan,
        new EffectNotDone('The call was not made: its run was told to stop before it.'),
      );
      throw run.signal.reason;
    }
    let result: Answer;
    try {
      result = await plan.call(idempotencyKey, run.signal);
    } catch (error) {
      await this.failed(run, key, plan, error);
      throw error;
    }
    const { jobName, fireTime, attempt } = run.owned;
    const closed = await this.persist(run, (manager) =>
      this.receipts.closeCall(manager, run.owned, key, storableJson(result)),
    );
    if (closed === 'refused') throw this.places.refused(run, key);
    this.events.emit({ type: 'receipt.written', jobName, fireTime, attempt, ...key });
    if (closed === 'late') throw this.runs.refused(run);
    return result;
  }

  /**
   * A process that was frozen after it had opened the receipt: the next attempt may be at it, so the call is not begun.
   */
  private isOver(run: InFlightRun): boolean {
    return !this.runs.isOurs(run) || run.signal.aborted;
  }

  private async failed<Answer>(
    run: InFlightRun,
    key: ReceiptKey,
    { policy, notDone }: CallPlan<Answer>,
    thrown: unknown,
  ): Promise<void> {
    const error = { ...describeError(thrown), stack: null };
    const becomes = surely(thrown, notDone) ? 'undone' : policy === 'park' ? 'in_doubt' : 'open';
    const became = await this.persist(run, (manager, wasRefused) =>
      this.receipts.failCall(manager, run.owned, key, wasRefused ? plainError(error) : error, becomes),
    ).catch(() => false);
    // What the call threw is what the handler is told. A receipt that stays open is in doubt by itself.
    if (became && becomes === 'in_doubt') this.tellInDoubt(run, key, run.owned.attempt, error);
  }

  /**
   * Writes what came of a call; tried again for as long as the lease holds, or it would be in doubt. What the database
   * refuses as it is gets one more try.
   */
  private persist<Result>(
    run: InFlightRun,
    write: (manager: EntityManager, wasRefused: boolean) => Promise<Result>,
  ): Promise<Result> {
    let wasRefused = false;
    return retry(
      () => this.places.alone((manager) => write(manager, wasRefused)),
      (error, failures, waitMs) => {
        if (isRefusedData(error) && !wasRefused) return (wasRefused = true);
        this.events.emit({
          type: 'loop.failed',
          loop: `receipt of ${run.id}`,
          error: describeError(error),
          failures,
          trouble: databaseTrouble(error),
        });
        return !isRefusedData(error) && run.holdsFor(waitMs);
      },
    );
  }

  private tellInDoubt(
    { owned: { jobName, fireTime } }: InFlightRun,
    key: ReceiptKey,
    attempt: number,
    error: StoredError | null,
  ): void {
    this.events.emit({ type: 'effect.inDoubt', jobName, fireTime, attempt, ...key, error });
  }
}

/** Whether the effect surely did not happen. A question that throws has not been answered. */
function surely(thrown: unknown, notDone: (error: unknown) => boolean): boolean {
  try {
    return thrown instanceof EffectNotDone || atOnce(notDone(thrown)) === true;
  } catch {
    return false;
  }
}
