import { setTimeout as sleep } from 'node:timers/promises';

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
