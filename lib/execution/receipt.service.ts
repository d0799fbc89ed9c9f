import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { DEFAULT_EFFECT } from '../domain/idempotency-key.js';
import { storableJson } from '../domain/stored-json.js';
import { InvalidEntityError } from '../errors/invalid-entity.error.js';
import { LeaseLostError } from '../errors/lease-lost.error.js';
import { MixedReceiptError } from '../errors/mixed-receipt.error.js';
import { NestedReceiptError } from '../errors/nested-receipt.error.js';
import { SchedulerEvents } from '../events/scheduler-events.js';
import { readExternalOptions, type OnceExternalOptions } from '../options/external-options.js';
import { PartitionStore } from '../store/partition.store.js';
import { ReceiptStore, type ReceiptKey } from '../store/receipt.store.js';
import { inReceiptTransaction } from '../store/receipt-transaction.js';
import { SchedulerDatabase } from '../store/scheduler-database.js';
import { ExternalEffects, type ExternalCall, type ExternalOutcome } from './external-effects.js';
import { IdempotencyKeys } from './idempotency-keys.js';
import { InFlightRuns, type InFlightRun } from './in-flight-runs.js';
import { RunContext } from './run-context.js';

/** Writes through the manager: everything it does commits with the receipt, or not at all. */
export type Effect<Result> = (manager: EntityManager) => Promise<Result> | Result;

/** How an effect is told from others on its entity. */
export interface OnceOptions {
  /** Tells several effects on one entity in one occurrence apart. @default 'default' */
  readonly effect?: string;
}

/** What became of an effect. */
export type OnceOutcome<Result> =
  /** It happened now. */
  | { readonly applied: true; readonly result: Result }
  /** It had happened already. The result is what it returned then, as JSON (a `Date` is a text), if that was at most 64 kB. */
  | { readonly applied: false; readonly result: Result | undefined };

/** Makes effects in the database happen once for each entity in each occurrence, whatever is killed, frozen or retried. */
@Injectable()
export class ReceiptService {
  constructor(
    private readonly context: RunContext,
    private readonly runs: InFlightRuns,
    private readonly store: ReceiptStore,
    private readonly partitions: PartitionStore,
    private readonly database: SchedulerDatabase,
    private readonly events: SchedulerEvents,
    private readonly keys: IdempotencyKeys,
    private readonly external: ExternalEffects,
  ) {}

  /**
   * Runs the effect in one transaction with its receipt, unless the receipt is there. Which run it belongs to is known
   * from where it is called. Only what is written through the given manager is part of the transaction. When the run's
   * lease ends, the reaper ends the transaction, wherever its process is frozen.
   *
   * @param entity what the effect is for: a customer, an invoice
   * @throws OutsideRunError outside a handler, AfterRunError after its end
   * @throws InvalidEntityError when the entity has no name that can be stored
   * @throws LeaseLostError when the run is no longer this process'; nothing was written
   */
  once<Result>(entity: string | number | bigint, effect: Effect<Result>, options: OnceOptions = {}): Promise<OnceOutcome<Result>> {
    const work = this.write(entity, effect, options);
    this.context.current?.track(work);
    return work;
  }

  /**
   * Makes one call to something outside the database, unless it is known to have been made. A receipt is written and
   * committed before the call, and closed after it with the answer. What was cut off in between is in doubt: it is parked
   * for a person (`SchedulerService.inDoubt`), and the handler goes on with the others, or sent again under the same key.
   * Several calls for one entity need names of their own: `effect`.
   *
   * What the call throws is thrown on. It leaves the effect in doubt, unless it is an `EffectNotDone`, or `notDone` says so:
   * then the next attempt makes the call.
   *
   * @param call gets the key for the receiver (Stripe's `Idempotency-Key`, a mail's `Message-ID`) and the run's signal
   * @throws OutsideRunError outside a handler, AfterRunError after its end, NestedReceiptError inside the effect of `once`
   * @throws InvalidOptionsError, InvalidEntityError; MixedReceiptError when `once` has a receipt of the same entity and effect
   * @throws LeaseLostError when the run is no longer this process'; the answer of a call under way is kept all the same
   */
  onceExternal<Answer>(entity: string | number | bigint, call: ExternalCall<Answer>, options: OnceExternalOptions): Promise<ExternalOutcome<Answer>> {
    const work = this.send(entity, call, options);
    this.context.current?.track(work);
    return work;
  }

  private async send<Answer>(entity: string | number | bigint, call: ExternalCall<Answer>, options: OnceExternalOptions): Promise<ExternalOutcome<Answer>> {
    const run = this.context.require('ReceiptService.onceExternal');
    const { effect, inDoubt: policy, notDone } = readExternalOptions(options);
    const key = receiptKey(entity, { effect });
    const outer = this.context.openTransaction.getStore();
    if (outer !== undefined) throw new NestedReceiptError(outer, `ReceiptService.onceExternal("${key.entity}")`);
    return run.whileOurs(this.external.once(run, key, { call, policy, notDone, slots: this.database.slots }));
  }

  private async write<Result>(entity: string | number | bigint, effect: Effect<Result>, options: OnceOptions): Promise<OnceOutcome<Result>> {
    const run = this.context.require('ReceiptService.once');
    const key = receiptKey(entity, options);
    const outer = this.context.openTransaction.getStore();
    if (outer !== undefined) throw new NestedReceiptError(outer, `ReceiptService.once("${key.entity}")`);
    if (run.leaseLost) throw run.leaseLost;
    const outcome = await this.partitions.makingSure(
      () => [run.owned.fireTime],
      () => this.context.openTransaction.run(`once("${key.entity}")`, () => run.whileOurs(this.database.slots.run(() => this.transact(run, key, effect)))),
    );
    const { jobName, fireTime, attempt } = run.owned;
    this.events.emit({ type: outcome.applied ? 'receipt.written' : 'receipt.duplicate', jobName, fireTime, attempt, ...key });
    return outcome;
  }

  private async transact<Result>(run: InFlightRun, key: ReceiptKey, effect: Effect<Result>): Promise<OnceOutcome<Result>> {
    const dataSource = await this.database.receipts();
    return inReceiptTransaction(dataSource, async (manager, bounded): Promise<OnceOutcome<Result>> => {
      const answer = await bounded(this.store.open(manager, run.owned, key, this.keys.of(run.owned, key.entity, key.effect)));
      if (answer.kind === 'there') return { applied: false, result: answer.result as Result | undefined };
      if (answer.kind === 'external') throw new MixedReceiptError(key.entity, key.effect, 'onceExternal');
      if (answer.kind === 'refused') throw this.refused(run, key);
      const result = await effect(manager);
      // Whoever lost the run while the effect was under way must not commit it.
      if (!(await bounded(this.store.close(manager, run.owned, key, storableJson(result))))) throw this.refused(run, key);
      return { applied: true, result };
    });
  }

  private refused(run: InFlightRun, key: ReceiptKey): LeaseLostError {
    const { jobName, fireTime, attempt } = run.owned;
    this.events.emit({ type: 'receipt.refused', jobName, fireTime, attempt, ...key });
    this.runs.lose(run, 'taken over');
    return run.leaseLost ?? new LeaseLostError(run.owned, 'taken over');
  }
}

function receiptKey(entity: unknown, { effect = DEFAULT_EFFECT }: OnceOptions): ReceiptKey {
  return { entity: nameOf('entity', entity), effect: nameOf('effect', effect) };
}

/** What an index row holds of each, in bytes. */
const MOST_BYTES = { entity: 1_000, effect: 500 };

/** A missing property read as the text "undefined" would make all entities one; so would half a surrogate pair. */
function nameOf(what: 'entity' | 'effect', given: unknown): string {
  const named = typeof given === 'bigint' || (typeof given === 'number' && Number.isFinite(given)) ? String(given) : given;
  const usable = typeof named === 'string' && named !== '' && Buffer.byteLength(named) <= MOST_BYTES[what] && !named.includes('\u0000') && named.isWellFormed();
  if (!usable) throw new InvalidEntityError(what, given, MOST_BYTES[what]);
  return named;
}
