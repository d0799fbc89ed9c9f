import type { DataSource, EntityManager } from 'typeorm';
import type { CronRun } from '../../domain/runs/cron-run.js';
import type { FailedEffect } from '../../errors/effects-failed.error.js';
import { InvalidOptionsError } from '../../errors/invalid-options.error.js';
import type { Items } from '../../runtime/chunks.js';
import type { EntityName } from './receipt-key.js';

/** Writes for one entity through the manager. */
export type EachEffect<Item> = (item: Item, manager: EntityManager) => unknown;

/** Writes for all these entities through the manager. */
export type BatchEffect<Item> = (items: Item[], manager: EntityManager) => unknown;

/** Which receipts are looked for. */
export interface PendingOptions<Item> {
  /** As for `once`. @default 'default' */
  readonly effect?: string;
  /** As for `once`. */
  readonly run?: CronRun;
  /** The entity's name, where the items are not names themselves. */
  readonly key?: (item: Item) => EntityName;
}

/** How effects are done, and what becomes of those that fail. */
export interface EachOptions<Item> extends PendingOptions<Item> {
  /** As for `once`; each batch is a transaction of its own, so a `DataSource` only. */
  readonly in?: DataSource;
  /** How many entities to a transaction, at most 5000. @default 100 */
  readonly batch?: number;
  /** How many transactions at a time; never more than the connections for receipts, `receiptPoolSize`. @default 1 */
  readonly concurrency?: number;
  /** After more failures than this the rest is not tried. @default 1000 */
  readonly maxFailures?: number;
  /** What becomes of failures at the end: `throw` an `EffectsFailedError`, or `return` them. @default 'throw' */
  readonly failures?: 'throw' | 'return';
}

/** Options, in which `key` may be left out only where the items are names. */
export type KeyedOptions<Item, Options> = [Item] extends [EntityName] ? [options?: Options] : [options: Options & { readonly key: (item: Item) => EntityName }];

/** What became of many effects. */
export interface EachOutcome<Item> {
  /** How many happened now. */
  readonly applied: number;
  /** How many had happened already, or were repeated in one batch. */
  readonly skipped: number;
  readonly failed: readonly FailedEffect<Item>[];
}

/** A text is a list of characters, too, which nobody means. @throws InvalidOptionsError */
export function requireItems<Item>(given: Items<Item>): Items<Item> {
  const listed = typeof given === 'object' && given !== null && (Symbol.iterator in given || Symbol.asyncIterator in given);
  if (!listed) throw new InvalidOptionsError(['entities: expected an iterable or an async iterable']);
  return given;
}
