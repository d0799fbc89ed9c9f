import { Temporal } from 'temporal-polyfill';
import { formatDuration } from '../options/duration.js';
import { duration } from '../options/option-rules.js';
import { timeZoneOf } from '../cron/time-zone.js';
import { readInstant } from '../trigger/trigger-request.js';
import { InvalidOptionsError } from '../errors/errors.js';

/** A cell; null is shown as a dash. */
export type Cell = string | number | null;

/**
 * Rows under headings, each column as wide as its widest cell; the last one is cut where the terminal ends.
 * @param columns the terminal's width; undefined where the output is no terminal
 */
export function table(headings: readonly string[], rows: readonly (readonly Cell[])[], columns?: number): string {
  if (rows.length === 0) return 'None.';
  const lines = [headings, ...rows.map((row) => row.map((cell) => oneLine(cell)))];
  const widths = headings.map((_, index) => Math.max(...lines.map((line) => [...line[index]!].length)));
  return lines
    .map((line) =>
      line
        .map((cell, index) => cell + ' '.repeat(widths[index]! - [...cell].length))
        .join('  ')
        .trimEnd(),
    )
    .map((line) =>
      columns !== undefined && [...line].length > columns ? `${[...line].slice(0, columns - 1).join('')}…` : line,
    )
    .join('\n');
}

/** What a stranger wrote must not move the cursor, nor change colours. */
function oneLine(cell: Cell): string {
  return cell === null || cell === ''
    ? '-'
    : String(cell)
        .replace(/\s+/g, ' ')
        .replace(/[\x00-\x1f\x7f-\x9f]/g, '·');
}

/** The same, of a text of several lines. */
export function printable(text: string): string {
  return text.replace(/[\x00-\x09\x0b-\x1f\x7f-\x9f]/g, '·');
}

/** As the clock on the wall shows it: `2026-12-01 03:00:00+01:00`. */
export function wallTime(instant: Date, timeZone: string): string {
  try {
    const zoned = Temporal.Instant.fromEpochMilliseconds(instant.getTime()).toZonedDateTimeISO(timeZone);
    const fraction = instant.getMilliseconds() === 0 ? 0 : 3;
    return `${zoned.toPlainDateTime().toString({ fractionalSecondDigits: fraction }).replace('T', ' ')}${zoned.offset}`;
  } catch {
    // A zone that this Node.js does not know.
    return utc(instant);
  }
}

/** `2026-12-01T02:00:00Z` */
export function utc(instant: Date | null): string {
  return instant === null ? '-' : instant.toISOString().replace('.000Z', 'Z');
}

/** Of a second or more, whole seconds: `1h2m3s`, `350ms`. */
export function span(ms: number): string {
  return formatDuration(ms < 1_000 ? Math.round(ms) : Math.round(ms / 1_000) * 1_000);
}

/**
 * An instant: RFC 3339, or a date and time as the clock on the wall of that zone shows it.
 * @throws InvalidOptionsError for what is neither, and for times that the clock skips or shows twice
 */
export function readTime(given: string, timeZone: string, what: string): Date {
  const instant = readInstant(given);
  if (instant !== null) return new Date(instant);
  const local = plainTime(given);
  if (!local)
    throw new InvalidOptionsError([
      `${what}: expected a time such as 2026-12-01T02:00:00Z, or "2026-12-01 03:00" in ${timeZone}, got ${JSON.stringify(given)}`,
    ]);
  const [earlier, later] = (['earlier', 'later'] as const).map((disambiguation) =>
    local.toZonedDateTime(timeZone, { disambiguation }),
  );
  if (earlier!.epochMilliseconds === later!.epochMilliseconds) return new Date(earlier!.epochMilliseconds);
  const skipped = !earlier!.toPlainDateTime().equals(local);
  const both = [earlier, later].map((zoned) => utc(new Date(zoned!.epochMilliseconds)));
  const change = utc(new Date(timeZoneOf(timeZone).periodAt(later!.epochMilliseconds).startMs));
  throw new InvalidOptionsError([
    skipped
      ? `${what}: the clocks of ${timeZone} skip ${given}; say the instant. What was planned then fires at the change, ${change}`
      : `${what}: the clocks of ${timeZone} show ${given} twice; say which: ${both.join(' or ')}`,
  ]);
}

/** As {@link readTime}, or a duration before now: `24h`. */
export function readSince(given: string, timeZone: string, what: string): Date {
  const before = duration()(given);
  return 'value' in before ? new Date(Date.now() - before.value) : readTime(given, timeZone, what);
}

function plainTime(given: string): Temporal.PlainDateTime | null {
  if (!/^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2})?)?$/.test(given)) return null;
  try {
    return Temporal.PlainDateTime.from(given.replace(' ', 'T'), { overflow: 'reject' });
  } catch {
    return null;
  }
}
