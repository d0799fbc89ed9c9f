import { monthsAround, nextMonth } from './schedule/months.js';

/** What is forgotten by the month, in the order in which it goes: a run without its receipts would do its effects again. */
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
 * The partitions that are to go: those that end before the instant, the oldest first, and what was begun and not finished.
 * @param olderThan milliseconds
 */
export function forgettable(partitions: readonly AgedPartition[], olderThan: number): AgedPartition[] {
  return partitions
    .filter(({ state, until }) => state !== 'attached' || until <= olderThan)
    .sort((a, b) => a.until - b.until || FORGOTTEN_TABLES.indexOf(a.table) - FORGOTTEN_TABLES.indexOf(b.table));
}

/** True when a fire time may be in both. */
export function overlap(one: Pick<AgedPartition, 'from' | 'until'>, other: Pick<AgedPartition, 'from' | 'until'>): boolean {
  return one.from < other.until && other.from < one.until;
}

const MONTHS_AHEAD = 3;
/** What was missed at the end of last month still gets its row. */
const MONTHS_BACK = 1;

/** The months whose partitions are to be there: those that are over, unless they would be dropped again, and this one with those to come. */
export function monthsToMake(now: number, retentionMs: number | null): { over: Date[]; toCome: Date[] } {
  const months = monthsAround(new Date(now), MONTHS_BACK, MONTHS_AHEAD);
  const over = months.slice(0, MONTHS_BACK).filter((month) => retentionMs === null || nextMonth(month).getTime() > now - retentionMs);
  return { over, toCome: months.slice(MONTHS_BACK) };
}
