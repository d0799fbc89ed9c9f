import { setTimeout as sleep } from 'node:timers/promises';
import { monotonicNow } from './clock.js';
import { isConflict, isReadOnly } from './sql-state.js';

const FIRST_RETRY_MS = 100;

/**
 * The longest wait after failures in a row, in milliseconds: work goes on within a second after the database is back.
 */
export const LONGEST_RETRY_MS = 1_000;

/**
 * How long to wait after failures in a row, in milliseconds: 0.1 s, doubling to the longest, each up to a fifth shorter
 * so that what failed together does not come back together.
 */
export function retryDelay(failures: number, longestMs = LONGEST_RETRY_MS): number {
  return Math.min(longestMs, FIRST_RETRY_MS * 2 ** Math.min(failures - 1, 20)) * (0.8 + 0.2 * Math.random());
}

/**
 * Asks until there is an answer. What failed together with others does not come back together with them.
 * @param ask given how often it has failed
 * @param goesOn given why it failed, how often by now, and how long the next try would be waited for, in milliseconds
 * @param keepsAlive the process does not end while the next try is waited for
 * @throws what it failed with last, when it does not go on
 */
export async function retry<Answer>(
  ask: (failures: number) => Promise<Answer>,
  goesOn: (error: unknown, failures: number, waitMs: number) => boolean,
  { keepsAlive = false } = {},
): Promise<Answer> {
  for (let failures = 0; ; ) {
    try {
      return await ask(failures);
    } catch (error) {
      failures += 1;
      const wait = retryDelay(failures);
      if (!goesOn(error, failures, wait)) throw error;
      await sleep(wait, undefined, { ref: keepsAlive });
    }
  }
}

const MOST_CONFLICTS = 6;
const FIRST_PAUSE_MS = 20;

/** Each try is given another connection: as many as an application's pool may have on what was the primary before. */
const MOST_CONNECTIONS = 20;

/**
 * Does a transaction's work again when it was rolled back because of another one, by a deadlock or a serialization
 * failure, for as long as the run goes on; after a pause that is drawn, so that the two do not meet again. So it does
 * when the connection took no writes, which is not used again.
 * @param run null for work that belongs to no attempt
 */
export async function againOnConflict<Result>(
  run: { readonly signal: AbortSignal; readonly leaseDeadline: number } | null,
  work: () => Promise<Result>,
): Promise<Result> {
  let readOnly = 0;
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if (isReadOnly(error)) readOnly += 1;
      const wait = Math.random() * FIRST_PAUSE_MS * 2 ** (tries - readOnly);
      const over = run !== null && (run.signal.aborted || monotonicNow() + wait >= run.leaseDeadline);
      const again = isReadOnly(error)
        ? readOnly < MOST_CONNECTIONS
        : isConflict(error) && tries - readOnly < MOST_CONFLICTS;
      if (!again || over) throw error;
      await sleep(wait);
    }
  }
}
