import { adviceAtStart, databaseTrouble } from '../errors/database-trouble.js';
import { SchedulerError, SetupError } from '../errors/errors.js';
import { formatDuration } from '../options/duration.js';
import { monotonicNow } from './clock.js';
import { retry } from './retry.js';

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
