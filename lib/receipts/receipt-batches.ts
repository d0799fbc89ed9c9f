import { Injectable } from '@nestjs/common';
import type { DataSource } from 'typeorm';
import { databaseTrouble, isOutOfReach } from '../errors/database-trouble.js';
import type { FailedEffect } from '../errors/receipt.errors.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { inMergedTransaction } from '../database/transactions.js';
import { PartitionStore } from '../database/partition.store.js';
import { ReceiptBatchStore } from './receipt.store.js';
import { ReceiptStore } from './receipt.store.js';
import { isRefusedClose } from './receipt.store.js';
import { againOnConflict } from './again.js';
import type { BatchEffect, EachOutcome } from './receipt-options.js';
import { BypassWatch } from './bypass-watch.js';
import { IdempotencyKeys } from './idempotency-key.js';
import type { InFlightRun } from '../runs/in-flight-runs.js';
import { ReceiptPlaces, type OwnPlace } from './receipt-places.js';
import { ReceiptRefusals } from './receipt-refusals.js';

/** What is to be done for each of many entities. */
export interface BatchWork<Item> {
  readonly run: InFlightRun;
  readonly place: OwnPlace;
  /** The effect's name. */
  readonly name: string;
  readonly effect: BatchEffect<Item>;
}

/** Carries batches of receipts and their effects through transactions, one for each. */
@Injectable()
export class ReceiptBatches {
  constructor(
    private readonly places: ReceiptPlaces,
    private readonly store: ReceiptBatchStore,
    private readonly receipts: ReceiptStore,
    private readonly partitions: PartitionStore,
    private readonly bypasses: BypassWatch,
    private readonly refusals: ReceiptRefusals,
    private readonly events: SchedulerEvents,
    private readonly keys: IdempotencyKeys,
  ) {}

  /**
   * All in one transaction. When it fails by one of them, each in a transaction of its own: an effect is done at most
   * twice.
   * @param entries by entity
   * @param mostFailures after more the rest is left alone
   */
  async write<Item>(
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
        applied: await run.whileOurs(
          this.partitions.makingSure(
            () => [run.owned.fireTime],
            () => againOnConflict(run, transact),
          ),
        ),
      };
    } catch (error) {
      if (isRefusedClose(error)) throw this.refusals.tell(run, { entity: firstOf(entries), effect: work.name });
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
    return inMergedTransaction(dataSource, [this.store.opening(run.owned, name, wanted)], async (manager, [rows]) => {
      const opened = this.store.openedOf(rows!);
      if (!opened) throw this.refusals.tell(run, key);
      const items = [...entries].filter(([entity]) => opened.has(entity)).map(([, item]) => item);
      if (items.length === 0) return { closing: null, result: 0 };
      await this.places.inside(key, manager, () =>
        this.bypasses.watch(run.owned, key, manager, () => effect(items, manager)),
      );
      return { closing: [this.receipts.closing(run.owned, key, null)], result: items.length };
    });
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
