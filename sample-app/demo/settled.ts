import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from './database.js';
import type { ExpectedJob } from './jobs.js';
import { countOccurrences } from './verdict/occurrences.js';
import { readRuns } from './verdict/runs.js';
import type { Window } from './verdict/window.js';

const LOOK_EVERY_MS = 200;
const PATIENCE_MS = 20_000;

/**
 * Waits until everything due in the window is decided and ended; gives up in silence: the verdict will say what is
 * open.
 */
export async function settled(
  database: Database,
  expected: readonly ExpectedJob[],
  window: Window,
  signal: AbortSignal,
): Promise<void> {
  const end = performance.now() + PATIENCE_MS;
  while (performance.now() < end) {
    const counts = countOccurrences(expected, window, await readRuns(database, window));
    if (counts.every(({ undecided, unfinished }) => undecided + unfinished === 0)) return;
    await sleep(LOOK_EVERY_MS, undefined, { signal });
  }
}
