import { setTimeout as sleep } from 'node:timers/promises';
import { monotonicNow } from '../database/clock.js';
import { isConflict, isReadOnly } from '../database/sql-state.js';
import type { InFlightRun } from '../runs/in-flight-runs.js';

const MOST_TRIES = 6;
const FIRST_WAIT_MS = 20;

/** Each try is given another connection: as many as an application's pool may have on what was the primary before. */
const MOST_CONNECTIONS = 20;

/**
 * Does a transaction's work again when it was rolled back because of another one, by a deadlock or a serialization
 * failure, for as long as the run goes on; after a pause that is drawn, so that the two do not meet again. So it does
 * when the connection took no writes, which is not used again.
 * @param run null for work that belongs to no attempt
 */
export async function againOnConflict<Result>(
  run: Pick<InFlightRun, 'signal' | 'leaseDeadline'> | null,
  work: () => Promise<Result>,
): Promise<Result> {
  let readOnly = 0;
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if (isReadOnly(error)) readOnly += 1;
      const wait = Math.random() * FIRST_WAIT_MS * 2 ** (tries - readOnly);
      const over = run !== null && (run.signal.aborted || monotonicNow() + wait >= run.leaseDeadline);
      const again = isReadOnly(error)
        ? readOnly < MOST_CONNECTIONS
        : isConflict(error) && tries - readOnly < MOST_TRIES;
      if (!again || over) throw error;
      await sleep(wait);
    }
  }
}
