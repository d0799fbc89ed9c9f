import { Injectable } from '@nestjs/common';
import type { Items } from '../database/collections.js';
import { nestedTransaction } from '../errors/run.errors.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { given, instant, knownAs } from '../options/operator-options.js';
import type { RunKey } from '../options/run.js';
import type { CronRun } from '../runs/cron-run.js';
import { RunContext } from '../runs/run-context.js';
import { type ExternalCall, ExternalEffects, type ExternalOutcome } from './external-effects.js';
import { ReceiptBatches } from './receipt-batches.js';
import {
  type BatchEffect,
  type EachEffect,
  type EachOptions,
  type EachOutcome,
  type EntityName,
  type KeyedOptions,
  type OnceExternalOptions,
  type PendingOptions,
  readExternalOptions,
  receiptKey,
  receiptOptions,
} from './receipt-options.js';
import type { ReceiptIn } from './receipt-places.js';
import { type Effect, type OnceOutcome, type ReceiptScript, ReceiptWriter } from './receipt-writer.js';

/** How an effect is told from others on its entity, and where it happens. */
export interface OccurrenceOnceOptions {
  /** Tells several effects on one entity in one occurrence apart. @default 'default' */
  readonly effect?: string;
  /**
   * The application's `DataSource`: receipt and effect are one transaction there. Or an `EntityManager` in whose
   * transaction both join: it commits them, or takes them back. It must lead to the database of the scheduler's tables.
   * @default the connection that the scheduler was given for receipts
   */
  readonly in?: ReceiptIn;
}

/** As for an occurrence, and which run it belongs to. */
export interface OnceOptions extends OccurrenceOnceOptions {
  /** The handler's run, for code that lost its context: an event listener, a pool. @default the run it is called in */
  readonly run?: CronRun;
}

/**
 * Makes effects in the database happen once for each entity in each occurrence, whatever is killed, frozen or retried.
 */
@Injectable()
export class ReceiptService {
  constructor(
    private readonly context: RunContext,
    private readonly writer: ReceiptWriter,
    private readonly batches: ReceiptBatches,
    private readonly external: ExternalEffects,
    private readonly events: SchedulerEvents,
  ) {}

  /**
   * Runs the effect in one transaction with its receipt, unless the receipt is there. Which run it belongs to is known
   * from where it is called. Only what is written through the given manager is part of the transaction. When the run's
   * lease ends, the reaper ends the transaction, wherever its process is frozen.
   *
   * In a transaction of its own, a deadlock or a serialization failure has the effect done again, a few times: what it
   * did was taken back. In a transaction of yours, nothing is tried again, and every error comes as it is.
   *
   * @param entity what the effect is for: a customer, an invoice
   * @throws UsageError outside a handler and after its end
   * @throws UsageError when the entity has no name that can be stored
   * @throws UsageError when `in` is no place for a receipt
   * @throws UsageError inside another's effect, unless it joins that one's transaction
   * @throws LeaseLostError when the run is no longer this process'; nothing was written
   */
  once<Result>(entity: EntityName, effect: Effect<Result>, options: OnceOptions = {}): Promise<OnceOutcome<Result>> {
    const work = this.ofRun(entity, effect, options);
    this.context.current?.track(work);
    return work;
  }

  /**
   * Makes one call to something outside the database, unless it is known to have been made. A receipt is written and
   * committed before the call, and closed after it with the answer. What was cut off in between is in doubt: it is
   * parked for a person (`SchedulerService.inDoubt`), and the handler goes on with the others, or sent again under the
   * same key. Several calls for one entity need names of their own: `effect`.
   *
   * What the call throws is thrown on. It leaves the effect in doubt, unless it is an `EffectNotDone`, or `notDone`
   * says so:
   * then the next attempt makes the call.
   *
   * @param call gets the key for the receiver (Stripe's `Idempotency-Key`, a mail's `Message-ID`) and the run's signal
   * @throws UsageError outside a handler, after its end, and inside the effect of
   * `once`
   * @throws InvalidOptionsError; UsageError also when `once` has a receipt of the same entity and
   * effect
   * @throws LeaseLostError when the run is no longer this process'; the answer of a call under way is kept all the same
   */
  onceExternal<Answer>(
    entity: EntityName,
    call: ExternalCall<Answer>,
    options: OnceExternalOptions,
  ): Promise<ExternalOutcome<Answer>> {
    const work = this.send(entity, call, options);
    this.context.current?.track(work);
    return work;
  }

  /**
   * Like `once`, for code that finishes something of an occurrence without being its handler: an HTTP request, a
   * consumer.
   * The effect happens once, also beside handlers that do the same. It is not tied to a lease: it is accepted whatever
   * becomes of the run, so nothing but the receipt keeps it from happening after the run was cancelled or has ended.
   *
   * @param run job name and exact fire time, as `CronRun` has them
   * @throws NotFoundError when there is no such occurrence; and as `once` does
   */
  async onceForOccurrence<Result>(
    run: RunKey,
    entity: EntityName,
    effect: Effect<Result>,
    options: OccurrenceOnceOptions = {},
  ): Promise<OnceOutcome<Result>> {
    const { effect: name, in: where } = receiptOptions('onceForOccurrence', options);
    const jobName = given(run?.jobName, knownAs, 'onceForOccurrence: jobName');
    const fireTime = given(run.fireTime, instant, 'onceForOccurrence: fireTime');
    const script = this.writer.ofOccurrence({ jobName, fireTime }, receiptKey(entity, name));
    return this.told(script, await this.writer.write(script, effect, where));
  }

  /**
   * Those of the entities that have no receipt yet in this occurrence, in their order; asked for a thousand at a time,
   * so that their number takes no memory. An entity that is given twice comes twice. Throws the signal's reason between
   * two thousands once the run is told to stop.
   *
   * @throws UsageError
   */
  pending<Item>(
    items: Items<Item>,
    ...[options]: KeyedOptions<Item, PendingOptions<Item>>
  ): AsyncIterableIterator<Item> {
    return this.batches.pending(items, options ?? {});
  }

  /**
   * `once` for very many entities: so many of them to a transaction, whose receipts are one statement. An effect that
   * throws takes back only its batch, whose entities are then done one by one, so that one does not stop the others.
   * What effects return is not kept. Stops between batches when the run is told to.
   *
   * @throws EffectsFailedError at the end when some failed, so that the next attempt does those
   * @throws InvalidOptionsError, UsageError, LeaseLostError
   */
  onceEach<Item>(
    items: Items<Item>,
    effect: EachEffect<Item>,
    ...[options]: KeyedOptions<Item, EachOptions<Item>>
  ): Promise<EachOutcome<Item>> {
    const one: BatchEffect<Item> = async (batch, manager) => {
      for (const item of batch) await effect(item, manager);
    };
    return this.many('onceEach', items, one, options);
  }

  /**
   * Like `onceEach`, with one call for all entities of a batch that are to be done: for a single `insert` of many rows.
   */
  onceBatch<Item>(
    items: Items<Item>,
    effect: BatchEffect<Item>,
    ...[options]: KeyedOptions<Item, EachOptions<Item>>
  ): Promise<EachOutcome<Item>> {
    return this.many('onceBatch', items, effect, options);
  }

  private many<Item>(
    verb: 'onceEach' | 'onceBatch',
    items: Items<Item>,
    effect: BatchEffect<Item>,
    options: EachOptions<Item> = {},
  ): Promise<EachOutcome<Item>> {
    const work = this.batches.each(verb, items, effect, options);
    this.context.current?.track(work);
    return work;
  }

  private async ofRun<Result>(
    entity: EntityName,
    effect: Effect<Result>,
    options: OnceOptions,
  ): Promise<OnceOutcome<Result>> {
    const { effect: name, in: where, run: which } = receiptOptions('once', options);
    const run = this.context.runFor('ReceiptService.once', which);
    const key = receiptKey(entity, name);
    if (run.leaseLost) throw run.leaseLost;
    const script = this.writer.ofRun(run, key);
    const work = this.writer.write(script, effect, where);
    if (run !== this.context.current) run.track(work);
    return this.told(script, await work);
  }

  private async send<Answer>(
    entity: EntityName,
    call: ExternalCall<Answer>,
    options: OnceExternalOptions,
  ): Promise<ExternalOutcome<Answer>> {
    const run = this.context.require('ReceiptService.onceExternal');
    const { effect, inDoubt: policy, notDone } = readExternalOptions(options);
    const key = receiptKey(entity, effect);
    const outer = this.context.transaction;
    if (outer) throw nestedTransaction(outer.name, `ReceiptService.onceExternal("${key.entity}")`);
    return run.whileOurs(this.external.once(run, key, { call, policy, notDone }));
  }

  private told<Result>({ key, facts }: ReceiptScript, outcome: OnceOutcome<Result>): OnceOutcome<Result> {
    this.events.emit({ type: outcome.applied ? 'receipt.written' : 'receipt.duplicate', ...facts(), ...key });
    return outcome;
  }
}
