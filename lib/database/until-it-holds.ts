import { busy, OperationRefusedError } from '../errors/errors.js';
import { isImpatience } from './sql-state.js';

/** What was read did not hold any more when it was to be written: nothing was. */
export const STALE = Symbol('stale');

/** Each try takes milliseconds: whoever is always overtaken has a process or a database that stands still. */
const MOST_TRIES = 20;

/**
 * Reads, plans and writes, again while others come between: nothing is locked while this process is waited for.
 * @param what for people: what is changed
 * @throws OperationRefusedError when it was changed meanwhile, each time
 */
export async function untilItHolds<Result>(
  what: string,
  attempt: () => Promise<Result | typeof STALE>,
): Promise<Result> {
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const result = await attempt();
    if (result !== STALE) return result;
  }
  throw new OperationRefusedError(
    'changed-meanwhile',
    `${what} was changed by others each time it was to be changed: nothing was done. Try again.`,
  );
}

/**
 * Calls the function of an operator's verb, which does not wait for long.
 * @param asked `cancel`, `pause`, …
 * @param what `job "export"`
 * @throws OperationRefusedError when another transaction holds for long what it would change
 */
export async function unlessBusy<Result>(asked: string, what: string, call: () => Promise<Result>): Promise<Result> {
  try {
    return await call();
  } catch (error) {
    throw isImpatience(error) ? busy(asked, what) : error;
  }
}
