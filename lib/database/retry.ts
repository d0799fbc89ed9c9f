import { setTimeout as sleep } from 'node:timers/promises';
import { monotonicNow } from './clock.js';
import { isConflict, isReadOnly, isImpatience } from './sql-state.js';
import { adviceAtStart, databaseTrouble } from '../errors/database-trouble.js';
import { SchedulerError, SetupError, busy, OperationRefusedError } from '../errors/errors.js';
import { formatDuration } from '../options/duration.js';

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

/** How often it is told that the start still waits, in milliseconds. */
const TELL_EVERY_MS = 5_000;

/** How long a start waits for its database, and who is told. */
export interface Patience {
  /** Milliseconds; 0 fails at once. */
  readonly waitMs: number;
  readonly tell: (text: string) => void;
}

/**
 * Does the work, again and again while the database is in the way for reasons that may pass. A wrong password or a
 * missing database is told at once.
 * @throws what the work throws, in words where it is the database's trouble
 */
export function withPatience<Result>({ waitMs, tell }: Patience, work: () => Promise<Result>): Promise<Result> {
  const deadline = monotonicNow() + waitMs;
  let toldAt = -Infinity;
  const goesOn = (error: unknown, _failures: number, pause: number) => {
    const left = deadline - monotonicNow();
    if (!databaseTrouble(error)?.passing || pause > left) return false;
    if (monotonicNow() - toldAt < TELL_EVERY_MS) return true;
    toldAt = monotonicNow();
    const most = formatDuration(Math.round(left / 1_000) * 1_000);
    tell(`Waiting for the database, ${most} more at most: ${(inWords(error) as Error).message}`);
    return true;
  };
  return retry(work, goesOn, { keepsAlive: true }).catch((error: unknown) => {
    throw inWords(error);
  });
}

/** What a start fails with: the database's trouble in words, everything else as it is. */
export function inWords(error: unknown): unknown {
  const trouble = databaseTrouble(error);
  return error instanceof Error && !(error instanceof SchedulerError) && trouble
    ? new SetupError(
        'database-unusable',
        `The scheduler cannot start with its database: ${error.message}. ${adviceAtStart(trouble)}`,
        { cause: error },
      )
    : error;
}

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
