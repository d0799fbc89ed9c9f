import { formatDuration } from './duration.js';
import type { JobDefinition } from './job-definition.js';

/**
 * What is forgotten by the month, in the order in which it goes: a run without its receipts would do its effects again.
 */
export const FORGOTTEN_TABLES = ['job_runs', 'job_pages', 'receipts'] as const;

/** A partition that the retention may drop. Milliseconds; `from` is included, `until` is not. */
export interface AgedPartition {
  readonly table: (typeof FORGOTTEN_TABLES)[number];
  readonly name: string;
  readonly from: number;
  readonly until: number;
  /** What was begun by a replica that did not finish is `detaching` or `detached`. */
  readonly state: 'attached' | 'detaching' | 'detached';
  /** Since when a replica has been dropping it; null when none has begun. */
  readonly droppedSince: number | null;
}

/** What keeps a month, each by its number. */
export interface StillOpen {
  /** Runs that have not ended. */
  readonly runs: number;
  readonly pages: number;
  /** Calls outside the database that nobody knows the end of. */
  readonly inDoubt: number;
  /** Backfills under way whose range reaches into it. */
  readonly backfills: number;
}

/** True when none of it is left. */
export function isNothing({ runs, pages, inDoubt, backfills }: StillOpen): boolean {
  return runs + pages + inDoubt + backfills === 0;
}

/**
 * The partitions that are to go: those that end before the instant, the oldest first, and what was begun and not
 * finished.
 * @param olderThan milliseconds
 */
export function forgettable(partitions: readonly AgedPartition[], olderThan: number): AgedPartition[] {
  return partitions
    .filter(({ state, until }) => state !== 'attached' || until <= olderThan)
    .sort((a, b) => a.until - b.until || FORGOTTEN_TABLES.indexOf(a.table) - FORGOTTEN_TABLES.indexOf(b.table));
}

/** True when a fire time may be in both. */
export function overlap(
  one: Pick<AgedPartition, 'from' | 'until'>,
  other: Pick<AgedPartition, 'from' | 'until'>,
): boolean {
  return one.from < other.until && other.from < one.until;
}

const MONTHS_AHEAD = 3;
/** What was missed at the end of last month still gets its row. */
const MONTHS_BACK = 1;

/**
 * The months whose partitions are to be there: those that are over, unless they would be dropped again, and this one
 * with those to come.
 */
export function monthsToMake(now: number, retentionMs: number | null): { over: Date[]; toCome: Date[] } {
  const months = monthsAround(new Date(now), MONTHS_BACK, MONTHS_AHEAD);
  const over = months
    .slice(0, MONTHS_BACK)
    .filter((month) => retentionMs === null || nextMonth(month).getTime() > now - retentionMs);
  return { over, toCome: months.slice(MONTHS_BACK) };
}

/** A day for clocks, deploys and whoever drops partitions at midnight, in milliseconds. */
const MARGIN_MS = 86_400_000;

type Kept = Pick<JobDefinition, 'name' | 'declaredBy' | 'catchUpWindowMs' | 'expectSuccessWithinMs'>;

/**
 * A row is the lock of its occurrence: one that is dropped while its occurrence can still be caught up lets it run
 * again. And the last success is looked for in the rows.
 * @param retentionMs how long history is kept; null for always
 */
export function problemsOfRetention(
  { name, declaredBy, catchUpWindowMs, expectSuccessWithinMs }: Kept,
  retentionMs: number | null,
): string[] {
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

/** The first instant of the month, UTC, that holds the given one. */
export function monthOf(instant: Date): Date {
  return new Date(Date.UTC(instant.getUTCFullYear(), instant.getUTCMonth(), 1));
}

/** The first instants of this month, of the ones before and of the ones after it, ascending. */
export function monthsAround(instant: Date, before: number, after: number): Date[] {
  const year = instant.getUTCFullYear();
  const month = instant.getUTCMonth();
  return Array.from({ length: before + 1 + after }, (_, index) => new Date(Date.UTC(year, month - before + index, 1)));
}

/** The first instant of the following month. */
export function nextMonth(month: Date): Date {
  return new Date(Date.UTC(month.getUTCFullYear(), month.getUTCMonth() + 1, 1));
}
