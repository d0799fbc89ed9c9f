import { atOnce } from '../observe/own-logger.js';
import { Injectable } from '@nestjs/common';
import type { DataSource } from 'typeorm';
import { chunksOf, inParallel, type Items } from '../database/collections.js';
import { againOnConflict } from '../database/retry.js';
import { isRefusedClose } from '../database/sql-state.js';
import { inMergedTransaction } from '../database/transactions.js';
import { EffectsFailedError, type FailedEffect } from '../errors/run.errors.js';
import { invalidPlace } from './receipt-places.js';
import { databaseTrouble, isOutOfReach } from '../errors/database-trouble.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { DEFAULT_EFFECT, IdempotencyKeys } from '../runs/idempotency-key.js';
import type { InFlightRun } from '../runs/in-flight-runs.js';
import { BypassWatch } from './bypass-watch.js';
import {
  type BatchEffect,
  type EachOptions,
  type EachOutcome,
  type PendingOptions,
  receiptKey,
  receiptOptions,
  requireItems,
} from './receipt-options.js';
import { type OwnPlace, ReceiptPlaces } from './receipt-places.js';
import { ReceiptRepository } from './receipt.repository.js';

/** How many entities a statement asks for. */
const PENDING_CHUNK = 1_000;
const DEFAULT_BATCH = 100;
const DEFAULT_MAX_FAILURES = 1_000;

/** What is to be done for each of many entities. */
interface BatchWork<Item> {
  readonly run: InFlightRun;
  readonly place: OwnPlace;
  /** The effect's name. */
  readonly name: string;
  readonly effect: BatchEffect<Item>;
}

/** Receipts for more entities than one transaction should hold: carried through transactions batch by batch. */
@Injectable()
export class ReceiptBatches {
  constructor(
    private readonly places: ReceiptPlaces,
    private readonly receipts: ReceiptRepository,
    private readonly bypasses: BypassWatch,
    private readonly events: SchedulerEvents,
    private readonly keys: IdempotencyKeys,
  ) {}

  pending<Item>(given: Items<Item>, options: PendingOptions<Item>): AsyncIterableIterator<Item> {
    const { effect = DEFAULT_EFFECT, run: which } = receiptOptions('pending', options);
    const run = this.places.runFor('ReceiptService.pending', which);
    return this.withoutReceipt(run, requireItems(given), keysBy(options.key, effect), effect);
  }

  async each<Item>(
    verb: 'onceEach' | 'onceBatch',
    given: Items<Item>,
    effect: BatchEffect<Item>,
    options: EachOptions<Item>,
  ): Promise<EachOutcome<Item>> {
    const read = receiptOptions(verb, options);
    const run = this.places.runFor(`ReceiptService.${verb}`, read.run);
    return run.track(this.all(verb, run, requireItems(given), effect, options, read));
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
      const done = await this.write(work, entries, maxFailures - failed.length);
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
    throw invalidPlace(`must be a DataSource for ${verb}: each batch is a transaction of its own`);
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
      const done = await run.whileOurs(slots.run(() => this.receipts.withReceipt(dataSource, run.owned, effect, keys)));
      yield* chunk.filter((_, index) => !done.has(keys[index]!));
    }
  }

  /**
   * All in one transaction. When it fails by one of them, each in a transaction of its own: an effect is done at most
   * twice.
   * @param entries by entity
   * @param mostFailures after more the rest is left alone
   */
  private async write<Item>(
    work: BatchWork<Item>,
    entries: ReadonlyMap<string, Item>,
    mostFailures: number,
  ): Promise<EachOutcome<Item>> {
    const done = await this.together(work, entries, mostFailures);
    const { jobName, fireTime, attempt } = work.run.owned;
    this.events.emit({
      type: 'receipts.written',
      jobName,
      fireTime,
      attempt,
      effect: work.name,
      applied: done.applied,
      skipped: done.skipped,
      failed: done.failed.length,
    });
    return done;
  }

  private async together<Item>(
    work: BatchWork<Item>,
    entries: ReadonlyMap<string, Item>,
    mostFailures: number,
  ): Promise<EachOutcome<Item>> {
    const tried = await this.attempt(work, entries);
    if ('applied' in tried) return { applied: tried.applied, skipped: entries.size - tried.applied, failed: [] };
    if (entries.size > 1) return this.oneByOne(work, entries, mostFailures);
    return {
      applied: 0,
      skipped: 0,
      failed: [...entries].map(([entity, item]) => ({ item, entity, error: tried.error })),
    };
  }

  private async oneByOne<Item>(
    work: BatchWork<Item>,
    entries: ReadonlyMap<string, Item>,
    mostFailures: number,
  ): Promise<EachOutcome<Item>> {
    let applied = 0;
    let skipped = 0;
    const failed: FailedEffect<Item>[] = [];
    for (const entry of entries) {
      work.run.signal.throwIfAborted();
      const one = await this.together(work, new Map([entry]), 0);
      applied += one.applied;
      skipped += one.skipped;
      failed.push(...one.failed);
      if (failed.length > mostFailures) break;
    }
    return { applied, skipped, failed };
  }

  /** @returns how many happened, or what an entity's effect failed with. @throws what is no entity's fault */
  private async attempt<Item>(
    work: BatchWork<Item>,
    entries: ReadonlyMap<string, Item>,
  ): Promise<{ applied: number } | { error: unknown }> {
    const { run } = work;
    let thrown: unknown;
    // TypeORM lets go of a connection that broke, and says no more than that when it is asked again.
    let broken = false;
    const effect: BatchEffect<Item> = async (items, manager) => {
      try {
        await work.effect(items, manager);
      } catch (error) {
        thrown = error;
        broken = manager.queryRunner?.isReleased ?? false;
        throw error;
      }
    };
    try {
      const transact = () =>
        work.place.slots.run(() => this.transact({ ...work, effect }, entries, work.place.dataSource));
      return {
        applied: await run.whileOurs(this.places.makingSure(run.owned.fireTime, () => againOnConflict(run, transact))),
      };
    } catch (error) {
      if (isRefusedClose(error)) throw this.places.refused(run, { entity: firstOf(entries), effect: work.name });
      if (run.signal.aborted || broken || isGone(error, thrown)) throw error;
      return { error };
    }
  }

  private transact<Item>(
    { run, name, effect }: BatchWork<Item>,
    entries: ReadonlyMap<string, Item>,
    dataSource: DataSource,
  ): Promise<number> {
    const wanted = [...entries.keys()].map((entity) => ({
      entity,
      idempotencyKey: this.keys.of(run.owned, entity, name),
    }));
    const key = { entity: firstOf(entries), effect: name };
    return inMergedTransaction(
      dataSource,
      [this.receipts.beginAll(run.owned, name, wanted)],
      async (manager, [rows]) => {
        const opened = this.receipts.begunOf(rows!);
        if (!opened) throw this.places.refused(run, key);
        const items = [...entries].filter(([entity]) => opened.has(entity)).map(([, item]) => item);
        if (items.length === 0) return { closing: null, result: 0 };
        await this.places.inside(key, manager, () =>
          this.bypasses.watch(run.owned, key, manager, () => effect(items, manager)),
        );
        return { closing: [this.receipts.end(run.owned, key, null)], result: items.length };
      },
    );
  }
}

function firstOf(entries: ReadonlyMap<string, unknown>): string {
  return entries.keys().next().value!;
}

/** The database is: every other entity would fail alike. What an effect meets elsewhere is its own trouble. */
function isGone(error: unknown, thrownByEffect: unknown): boolean {
  const trouble = databaseTrouble(error);
  return (
    trouble !== null &&
    isOutOfReach(trouble) &&
    (error !== thrownByEffect || (error as { driverError?: unknown }).driverError !== undefined)
  );
}

function keysBy<Item>(key: ((item: Item) => unknown) | undefined, effect: string): (item: Item) => string {
  return (item) => receiptKey(key ? atOnce(key(item)) : item, effect).entity;
}
