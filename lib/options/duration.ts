import ms from 'ms';

type Unit =
  | ('ms' | 'msec' | 'msecs' | 'millisecond' | 'milliseconds')
  | ('s' | 'sec' | 'secs' | 'second' | 'seconds')
  | ('m' | 'min' | 'mins' | 'minute' | 'minutes')
  | ('h' | 'hr' | 'hrs' | 'hour' | 'hours')
  | ('d' | 'day' | 'days' | 'w' | 'week' | 'weeks' | 'y' | 'yr' | 'yrs' | 'year' | 'years');

/**
 * Milliseconds as a number, or a string such as `'30s'`, `'2m'`, `'24h'`, `'7d'`, `'5 minutes'`. Units are read in any
 * case.
 */
export type Duration = number | `${number}${Unit}` | `${number} ${Unit}`;

/** The longest delay a Node.js timer takes; a longer one fires at once. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;

/**
 * Reads a duration into whole milliseconds; null when it is not one (negative, fractional, without a unit, not finite).
 */
export function parseDuration(value: unknown): number | null {
  const millis = typeof value === 'string' && /[a-z]$/i.test(value.trim()) ? ms(value.trim() as ms.StringValue) : value;
  return typeof millis === 'number' && Number.isSafeInteger(millis) && millis >= 0 ? millis : null;
}

/** The shortest exact way to write a duration: `90000` is `1m30s`. */
export function formatDuration(millis: number): string {
  if (millis < 1_000) return `${millis}ms`;
  const units: [string, number][] = [
    ['d', 86_400_000],
    ['h', 3_600_000],
    ['m', 60_000],
    ['s', 1_000],
    ['ms', 1],
  ];
  let rest = Math.round(millis);
  return units
    .map(([unit, size]) => {
      const count = Math.floor(rest / size);
      rest -= count * size;
      return count > 0 ? `${count}${unit}` : '';
    })
    .join('');
}
