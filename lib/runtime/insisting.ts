import { setTimeout as sleep } from 'node:timers/promises';
import { retryDelay } from './retry-delay.js';

/**
 * Asks until there is an answer. What failed together with others does not come back together with them.
 * @param ask given how often it has failed
 * @param goesOn given why it failed, how often by now, and how long the next try would be waited for, in milliseconds
 * @throws what it failed with last, when it does not go on
 */
export async function insisting<Answer>(
  ask: (failures: number) => Promise<Answer>,
  goesOn: (error: unknown, failures: number, waitMs: number) => boolean,
): Promise<Answer> {
  for (let failures = 0; ; ) {
    try {
      return await ask(failures);
    } catch (error) {
      failures += 1;
      const wait = retryDelay(failures);
      if (!goesOn(error, failures, wait)) throw error;
      await sleep(wait, undefined, { ref: false });
    }
  }
}
