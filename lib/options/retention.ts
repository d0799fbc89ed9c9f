import { formatDuration } from '../domain/duration.js';
import type { JobDefinition } from '../domain/job-definition.js';

/** A day for clocks, deploys and whoever drops partitions at midnight, in milliseconds. */
const MARGIN_MS = 86_400_000;

type Kept = Pick<JobDefinition, 'name' | 'declaredBy' | 'catchUpWindowMs' | 'expectSuccessWithinMs'>;

/**
 * A row is the lock of its occurrence: one that is dropped while its occurrence can still be caught up lets it run again. And
 * the last success is looked for in the rows.
 * @param retentionMs how long history is kept; null for always
 */
export function problemsOfRetention({ name, declaredBy, catchUpWindowMs, expectSuccessWithinMs }: Kept, retentionMs: number | null): string[] {
  if (retentionMs === null) return [];
  const [kept, window, margin] = [retentionMs, catchUpWindowMs, MARGIN_MS].map(formatDuration);
  if (retentionMs < catchUpWindowMs + MARGIN_MS) {
    return [
      `${declaredBy}: job "${name}": catchUpWindow (${window}) with a margin of ${margin} is longer than the retention (${kept}): ` +
        `what is forgotten would run again. Keep history longer, or shorten the window.`,
    ];
  }
  if (expectSuccessWithinMs === null || retentionMs >= catchUpWindowMs + expectSuccessWithinMs) return [];
  return [
    `${declaredBy}: job "${name}": expectSuccessWithin (${formatDuration(expectSuccessWithinMs)}) with the catchUpWindow (${window}) is longer than the retention (${kept}): ` +
      `the success that is looked for would be forgotten. Keep history longer, or expect one sooner.`,
  ];
}
