import type { DataSource, EntityManager } from 'typeorm';
import type { Items } from '../database/collections.js';
import { InvalidOptionsError, UsageError } from '../errors/errors.js';
import type { FailedEffect } from '../errors/run.errors.js';
import { readObject } from '../options/operator-options.js';
import {
  anything,
  expected,
  functionOf,
  integer,
  oneOf,
  type Rule,
  type OptionTable,
  readOptions,
  type Values,
} from '../options/option-rules.js';
import type { ReceiptKey } from '../options/run.js';
import type { CronRun } from '../runs/cron-run.js';
import { DEFAULT_EFFECT } from '../runs/idempotency-key.js';

/** What an effect is for, by its name in the application: a customer's number, an invoice's id. */
export type EntityName = string | number | bigint;

/** What an index row holds of each, in bytes. */
const MOST_BYTES = { entity: 1_000, effect: 500 };

/** @throws UsageError when one of them cannot be stored */
export function receiptKey(entity: unknown, effect: string = DEFAULT_EFFECT): ReceiptKey {
  return { entity: nameOf('entity', entity), effect: nameOf('effect', effect) };
}

/** A missing property read as the text "undefined" would make all entities one; so would half a surrogate pair. */
function nameOf(what: 'entity' | 'effect', given: unknown): string {
  const named =
    typeof given === 'bigint' || (typeof given === 'number' && Number.isFinite(given)) ? String(given) : given;
  const usable =
    typeof named === 'string' &&
    named !== '' &&
    Buffer.byteLength(named) <= MOST_BYTES[what] &&
    !named.includes('\u0000') &&
    named.isWellFormed();
  if (!usable)
    throw new UsageError(
      'invalid-entity',
      `ReceiptService.once: the ${what} must be a number or a well-formed text of 1 to ${MOST_BYTES[what]} bytes without NUL, got ${shown(given)}.`,
    );
  return named;
}

function shown(given: unknown): string {
  if (typeof given !== 'string') return typeof given === 'object' && given !== null ? 'an object' : String(given);
  const short = given.length > 40 ? `${given.slice(0, 40)}…` : given;
  return `${JSON.stringify(short)} (${Buffer.byteLength(given)} bytes)`;
}

/** A text; what it may hold is for the receipt's key to judge. */
const effect: Rule<string> = (given) => (typeof given === 'string' ? { value: given } : expected('a text', given));

/** More than one statement should carry. */
const MOST_IN_A_BATCH = 5_000;

const ONE = { effect: { rule: effect }, in: { rule: anything } } satisfies OptionTable;
const ONCE = { ...ONE, run: { rule: anything } } satisfies OptionTable;
const MANY = {
  effect: { rule: effect },
  run: { rule: anything },
  key: { rule: functionOf<(item: unknown) => unknown>('an item') },
} satisfies OptionTable;
const EACH = {
  ...MANY,
  in: { rule: anything },
  batch: { rule: integer({ atLeast: 1, atMost: MOST_IN_A_BATCH }) },
  concurrency: { rule: integer({ atLeast: 1 }) },
  maxFailures: { rule: integer({ atLeast: 0 }) },
  failures: { rule: oneOf('throw', 'return') },
} satisfies OptionTable;

const TABLES = { once: ONCE, onceForOccurrence: ONE, pending: MANY, onceEach: EACH, onceBatch: EACH };

/** Reads the options of one of the receipts' verbs. @throws InvalidOptionsError with all problems */
export function receiptOptions<Verb extends keyof typeof TABLES>(
  verb: Verb,
  given: object,
): Partial<Values<(typeof TABLES)[Verb]>> {
  const { values, problems } = readOptions(given, TABLES[verb], `${verb}: `);
  if (problems.length > 0) throw new InvalidOptionsError(problems);
  return values as Partial<Values<(typeof TABLES)[Verb]>>;
}

/** What is to become of an effect outside the database when nobody knows whether it happened. */
export type InDoubtPolicy =
  /** A person decides. */
  | 'park'
  /** It is sent again under the same key: the receiver drops what it has. */
  | 'resend';

/** No name, or nobody there: what was to be sent was not. */
export const NEVER_CONNECTED: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'UND_ERR_CONNECT_TIMEOUT',
]);

const MOST_CAUSES = 5;

/**
 * True when the error says that no connection was made: it, or what it was caused by, has the code `ECONNREFUSED`,
 * `ENOTFOUND`, `EAI_AGAIN` or `UND_ERR_CONNECT_TIMEOUT`. For a call that sends one request, and follows no redirect.
 */
export function neverConnected(error: unknown): boolean {
  try {
    for (
      let at = error, depth = 0;
      typeof at === 'object' && at !== null && depth <= MOST_CAUSES;
      at = (at as Error).cause, depth++
    ) {
      if (NEVER_CONNECTED.has((at as { code?: unknown }).code)) return true;
    }
  } catch {
    // A proxy may throw at every question.
  }
  return false;
}

/**
 * How an effect outside the database is told from others on its entity, and what becomes of it when nobody knows
 * whether it happened.
 */
export interface OnceExternalOptions {
  /** Tells several effects on one entity in one occurrence apart. @default 'default' */
  readonly effect?: string;
  /**
   * `'park'`: a person finds out and decides. `'resend'`: the next attempt sends it again under the same key, which the
   * receiver must know and drop.
   */
  readonly inDoubt: InDoubtPolicy;
  /**
   * Whether what the call threw says that the effect surely did not happen, so that the next attempt may make the call.
   * `EffectNotDone` always says so.
   * @default neverConnected
   */
  readonly notDone?: (error: unknown) => boolean;
}

const POLICY: Rule<InDoubtPolicy> = oneOf<InDoubtPolicy>('park', 'resend');

const OPTIONS = {
  effect: { rule: anything as Rule<string> },
  inDoubt: {
    rule: (given) =>
      given === null
        ? expected(
            `what is to become of a call when nobody knows whether it got through, "park" or "resend"`,
            undefined,
          )
        : POLICY(given),
  },
  notDone: { rule: functionOf<(error: unknown) => boolean>('what the call threw') },
} as const satisfies Record<keyof OnceExternalOptions, OptionTable[string]>;

/** @throws InvalidOptionsError with every problem */
export function readExternalOptions(given: OnceExternalOptions): {
  effect: string | undefined;
  inDoubt: InDoubtPolicy;
  notDone: (error: unknown) => boolean;
} {
  const isObject = typeof given === 'object' && given !== null;
  // Left out, it is told as what is wrong with it, beside everything else.
  const { values, problems } = readObject(
    isObject ? { ...given, inDoubt: given.inDoubt ?? null } : (given ?? null),
    OPTIONS,
  );
  if (problems.length > 0)
    throw new InvalidOptionsError(problems.map((problem) => `ReceiptService.onceExternal: ${problem}`));
  return { effect: values.effect, inDoubt: values.inDoubt!, notDone: values.notDone ?? neverConnected };
}

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
export type KeyedOptions<Item, Options> = [Item] extends [EntityName]
  ? [options?: Options]
  : [options: Options & { readonly key: (item: Item) => EntityName }];

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
  const listed =
    typeof given === 'object' && given !== null && (Symbol.iterator in given || Symbol.asyncIterator in given);
  if (!listed) throw new InvalidOptionsError(['entities: expected an iterable or an async iterable']);
  return given;
}
