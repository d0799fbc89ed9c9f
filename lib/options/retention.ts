import { formatDuration } from '../domain/duration.js';
import type { JobDefinition } from '../domain/job-definition.js';

/** A day for clocks, deploys and whoever drops partitions at midnight, in milliseconds. */
const MARGIN_MS = 86_400_000;

/**
 * A row is the lock of its occurrence: one that is dropped while its occurrence can still be caught up lets it run again.
 * @param retentionMs how long history is kept; null for always
 */
export function problemsOfRetention({ name, declaredBy, catchUpWindowMs }: JobDefinition, retentionMs: number | null): string[] {
  if (retentionMs === null || retentionMs >= catchUpWindowMs + MARGIN_MS) return [];
  const [kept, window, margin] = [retentionMs, catchUpWindowMs, MARGIN_MS].map(formatDuration);
  return [
    `${declaredBy}: job "${name}": catchUpWindow (${window}) with a margin of ${margin} is longer than the retention (${kept}): ` +
      `what is forgotten would run again. Keep history longer, or shorten the window.`,
  ];
}
