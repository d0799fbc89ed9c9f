import { createHash } from 'node:crypto';
import type { RunKey } from '../runs/run.js';
import { isPageId } from './page-input.js';

/** Where a page of a run stands. */
export type PageStatus = 'queued' | 'running' | 'done' | 'failed' | 'dead' | 'cancelled';

/** One part of an occurrence's work, as its handler sees it. */
export interface Page<Data = unknown> {
  /** Names it within its occurrence. */
  readonly id: string;
  /** What it was published with. */
  readonly data: Data;
}

/** Names one page of one occurrence. */
export interface PageKey extends RunKey {
  readonly page: string;
}

/** The right to one delivery of a page: what a queue carries. It holds no data; those are in `job_pages`. */
export interface PageTicket extends PageKey {
  /** Made of the job, the fire time, the page and `ticket`: 43 characters that are safe in any key. */
  readonly id: string;
  /** How often the page was queued before. A ticket of an earlier time is worth nothing any more. */
  readonly ticket: number;
}

export function pageTicket({ jobName, fireTime, page }: PageKey, ticket: number): PageTicket {
  const parts = [jobName, fireTime.toISOString(), page, ticket];
  return { id: createHash('sha256').update(JSON.stringify(parts)).digest('base64url'), jobName, fireTime, page, ticket };
}

/** What `integer` holds in PostgreSQL. */
const MOST_TICKETS = 2 ** 31 - 1;

/** What PostgreSQL reads as it is written: a year of four digits. */
const [FIRST_INSTANT, LAST_INSTANT] = [Date.UTC(1000, 0, 1), Date.UTC(9999, 11, 31)];

/**
 * Reads what a queue delivers. Whoever can write to the queue can have it deliver anything.
 * @returns null for what is no ticket
 */
export function readTicket(given: unknown): PageTicket | null {
  const { jobName, fireTime, page, ticket } = Object(given) as Record<string, unknown>;
  const isTicket =
    typeof jobName === 'string' &&
    fireTime instanceof Date &&
    fireTime.getTime() >= FIRST_INSTANT &&
    fireTime.getTime() <= LAST_INSTANT &&
    isPageId(page) &&
    Number.isInteger(ticket) &&
    (ticket as number) >= 0 &&
    (ticket as number) <= MOST_TICKETS;
  return isTicket ? pageTicket({ jobName, fireTime, page }, ticket as number) : null;
}

/** How far an occurrence is that was fanned out. */
export interface PageProgress {
  readonly total: number;
  readonly done: number;
  readonly queued: number;
  readonly running: number;
  /** Wait for their next attempt. */
  readonly failed: number;
  readonly dead: number;
  readonly cancelled: number;
}
