import { plainError, plainText, type StoredError } from '../errors/stored-error.js';

/** Of a reason that was refused as it was, in characters. */
const LONGEST_REASON = 500;

/** A backoff that was refused as it was, in milliseconds: a hundred years. */
const LONGEST_RETRY_MS = 100 * 365 * 86_400_000;

/** How an attempt ended, in a form that every database accepts: for one that was refused as it was. */
export function plainEnding<
  Ending extends {
    readonly reason: string | null;
    readonly error: StoredError | null;
    readonly retryInMs: number | null;
  },
>(ending: Ending): Ending {
  const { reason, error, retryInMs } = ending;
  return {
    ...ending,
    reason: reason && plainText(reason, LONGEST_REASON),
    error: error && plainError(error),
    retryInMs: retryInMs && Math.min(retryInMs, LONGEST_RETRY_MS),
  };
}
