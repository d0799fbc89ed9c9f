const FIRST_RETRY_MS = 100;

/** The longest wait after failures in a row, in milliseconds: work goes on within a second after the database is back. */
export const LONGEST_RETRY_MS = 1_000;

/**
 * How long to wait after failures in a row, in milliseconds: 0.1 s, doubling to the longest, each up to a fifth shorter so
 * that what failed together does not come back together.
 */
export function retryDelay(failures: number, longestMs = LONGEST_RETRY_MS): number {
  return Math.min(longestMs, FIRST_RETRY_MS * 2 ** Math.min(failures - 1, 20)) * (0.8 + 0.2 * Math.random());
}
