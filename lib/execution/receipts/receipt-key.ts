import { DEFAULT_EFFECT } from '../../domain/effects/idempotency-key.js';
import { InvalidEntityError } from '../../errors/invalid-entity.error.js';
import type { ReceiptKey } from '../../store/receipts/receipt.store.js';

/** What an effect is for, by its name in the application: a customer's number, an invoice's id. */
export type EntityName = string | number | bigint;

/** What an index row holds of each, in bytes. */
const MOST_BYTES = { entity: 1_000, effect: 500 };

/** @throws InvalidEntityError when one of them cannot be stored */
export function receiptKey(entity: unknown, effect: string = DEFAULT_EFFECT): ReceiptKey {
  return { entity: nameOf('entity', entity), effect: nameOf('effect', effect) };
}

/** A missing property read as the text "undefined" would make all entities one; so would half a surrogate pair. */
function nameOf(what: 'entity' | 'effect', given: unknown): string {
  const named = typeof given === 'bigint' || (typeof given === 'number' && Number.isFinite(given)) ? String(given) : given;
  const usable = typeof named === 'string' && named !== '' && Buffer.byteLength(named) <= MOST_BYTES[what] && !named.includes('\u0000') && named.isWellFormed();
  if (!usable) throw new InvalidEntityError(what, given, MOST_BYTES[what]);
  return named;
}
