import { formatDuration } from '../domain/duration.js';

/** `1 job`, `2 jobs`. */
export function count(many: number, what: string): string {
  return `${many} ${what}${many === 1 ? '' : 's'}`;
}

/**
 * `a, b and c`, or `a, b and 7 more`.
 * @param many how many there are, of which `texts` are the first
 */
export function listed(texts: readonly string[], many: number): string {
  const last = many > texts.length ? `${many - texts.length} more` : texts.at(-1)!;
  const before = many > texts.length ? texts : texts.slice(0, -1);
  return before.length === 0 ? last : `${before.join(', ')} and ${last}`;
}

/** A duration that was measured, as exact as a person reads it: `850ms`, `4s300ms`, `1m5s`. @param millis at least 0 */
export function roughly(millis: number): string {
  const step = millis < 1_000 ? 1 : millis < 10_000 ? 100 : 1_000;
  return formatDuration(Math.round(millis / step) * step);
}
