import { Injectable } from '@nestjs/common';
import { DEFAULT_EFFECT } from './idempotency-key.js';
import { EffectsFailedError, type FailedEffect } from '../errors/receipt.errors.js';
import { ReceiptTransactionError } from '../errors/receipt.errors.js';
import { receiptOptions } from './receipt-options.js';
import { chunksOf, inParallel, type Items } from '../database/collections.js';
import { ReceiptBatchStore } from './receipt.store.js';
import {
  requireItems,
  type BatchEffect,
  type EachOptions,
  type EachOutcome,
  type PendingOptions,
} from './receipt-options.js';
import { runFor } from './receipt-options.js';
import type { InFlightRun } from '../runs/in-flight-runs.js';
import { ReceiptBatches } from './receipt-batches.js';
import { receiptKey } from './receipt-options.js';
import { ReceiptPlaces, type OwnPlace } from './receipt-places.js';
import { RunContext } from '../runs/run-context.js';

/** How many entities a statement asks for. */
const PENDING_CHUNK = 1_000;
const DEFAULT_BATCH = 100;
const DEFAULT_MAX_FAILURES = 1_000;

/** Receipts for more entities than one transaction should hold. */
@Injectable()
export class ReceiptBulk {
  constructor(
    private readonly context: RunContext,
    private readonly places: ReceiptPlaces,
    private readonly store: ReceiptBatchStore,
    private readonly batches: ReceiptBatches,
  ) {}

  pending<Item>(given: Items<Item>, options: PendingOptions<Item>): AsyncIterableIterator<Item> {
    const { effect = DEFAULT_EFFECT, run: which } = receiptOptions('pending', options);
    const run = runFor('ReceiptService.pending', this.context, which);
    return this.withoutReceipt(run, requireItems(given), keysBy(options.key, effect), effect);
  }

  async each<Item>(
    verb: 'onceEach' | 'onceBatch',
    given: Items<Item>,
    effect: BatchEffect<Item>,
    options: EachOptions<Item>,
  ): Promise<EachOutcome<Item>> {
    const read = receiptOptions(verb, options);
    const run = runFor(`ReceiptService.${verb}`, this.context, read.run);
    const work = this.all(verb, run, requireItems(given), effect, options, read);
    if (run !== this.context.current) run.track(work);
    return work;
  }

  private async all<Item>(
    verb: 'onceEach' | 'onceBatch',
    run: InFlightRun,
    items: Items<Item>,
    effect: BatchEffect<Item>,
    options: EachOptions<Item>,
    read: ReturnType<typeof receiptOptions<'onceEach'>>,
  ): Promise<EachOutcome<Item>> {
    const { effect: name = DEFAULT_EFFECT, in: where } = read;
    const { batch = DEFAULT_BATCH, concurrency = 1, maxFailures = DEFAULT_MAX_FAILURES, failures = 'throw' } = read;
    const chunks = chunksOf(items, batch);
    const keyOf = keysBy(options.key, name);
    const work = { run, name, effect, place: await this.place(verb, where, name) };
    const failed: FailedEffect<Item>[] = [];
    let applied = 0;
    let skipped = 0;
    const tooMany = () => failed.length > maxFailures;
    await inParallel(Math.min(concurrency, work.place.slots.count), chunks, async (chunk) => {
      run.signal.throwIfAborted();
      const entries = new Map<string, Item>();
      for (const item of chunk) {
        const entity = keyOf(item);
        if (!entries.has(entity)) entries.set(entity, item);
      }
      const done = await this.batches.write(work, entries, maxFailures - failed.length);
      applied += done.applied;
      skipped += done.skipped + chunk.length - entries.size;
      failed.push(...done.failed);
      return !tooMany();
    });
    if (failed.length > 0 && (failures === 'throw' || tooMany()))
      throw new EffectsFailedError(failed, applied, skipped, tooMany());
    return { applied, skipped, failed };
  }

  private async place(verb: string, where: unknown, effect: string): Promise<OwnPlace> {
    const place = await this.places.find(where, receiptKey('every entity', effect), verb);
    if (place.kind === 'own') return place;
    throw new ReceiptTransactionError(`must be a DataSource for ${verb}: each batch is a transaction of its own`);
  }

  private async *withoutReceipt<Item>(
    run: InFlightRun,
    items: Items<Item>,
    keyOf: (item: Item) => string,
    effect: string,
  ): AsyncGenerator<Item, void> {
    for await (const chunk of chunksOf(items, PENDING_CHUNK)) {
      run.signal.throwIfAborted();
      const { dataSource, slots } = await this.place('pending', undefined, effect);
      const keys = chunk.map(keyOf);
      const done = await run.whileOurs(slots.run(() => this.store.withReceipt(dataSource, run.owned, effect, keys)));
      yield* chunk.filter((_, index) => !done.has(keys[index]!));
    }
  }
}

function keysBy<Item>(key: ((item: Item) => unknown) | undefined, effect: string): (item: Item) => string {
  return (item) => receiptKey(key ? key(item) : item, effect).entity;
}
