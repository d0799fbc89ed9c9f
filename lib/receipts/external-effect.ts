/** What is to become of an effect outside the database when nobody knows whether it happened. */
export type InDoubtPolicy =
  /** A person decides. */
  | 'park'
  /** It is sent again under the same key: the receiver drops what it has. */
  | 'resend';

/**
 * Where a receipt stands. One of an effect in the database is only ever `done`. One of a call is `open` from before it
 * until its answer is written; `in_doubt`: a person has to find out; `undone`: it surely did not happen.
 */
export type ReceiptState = 'open' | 'done' | 'in_doubt' | 'undone';

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
