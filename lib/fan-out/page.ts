import { createHash } from 'node:crypto';
import { hasWhatJsonbRefuses } from '../errors/stored-error.js';
import { JOB_OPTIONS } from '../options/defaults.js';
import type { Duration } from '../options/duration.js';
import type { Backoff, JobDefinition, BackoffOptions } from '../options/job-definition.js';
import { readObject } from '../options/operator-options.js';
import { duration, integer, type OptionTable } from '../options/option-rules.js';
import type { RunKey } from '../options/run.js';

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
  return {
    id: createHash('sha256').update(JSON.stringify(parts)).digest('base64url'),
    jobName,
    fireTime,
    page,
    ticket,
  };
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

/** A page as it is published: with an id of its own and data, or only its data, and then its place is its id. */
export type PageInput<Data = unknown> = { readonly id?: string | number; readonly data?: Data } | Data;

/** What became of one: an id, and its data as JSON; or what is wrong with it. */
export type PageReading = { readonly page: string; readonly data: string | null } | { readonly problem: string };

/** The longest data of one page, in characters of JSON. */
const MOST_DATA = 1_048_576;

/** The longest id, in characters. */
const MOST_ID = 200;

/**
 * Reads a page. An object with no other keys than `id` and `data` is one with its own id; everything else is data.
 * @param place how many were published before it in this attempt
 */
export function readPage(given: unknown, place: number): PageReading {
  const { id = place, data } = isWhole(given) ? given : { data: given };
  const page = typeof id === 'number' && Number.isSafeInteger(id) ? String(id) : id;
  if (!isPageId(page))
    return {
      problem: `the id of page ${place} has to be a whole number, or a text of 1 to ${MOST_ID} characters without blanks around it`,
    };
  const json = jsonOf(data);
  return json === undefined
    ? { problem: `page ${page}: its data have to be JSON of at most 1 MB, without NUL` }
    : { page, data: json };
}

export function isPageId(page: unknown): page is string {
  return (
    typeof page === 'string' &&
    page !== '' &&
    page === page.trim() &&
    page.length <= 2 * MOST_ID &&
    [...page].length <= MOST_ID &&
    !/[\p{Cc}\p{Cs}]/u.test(page)
  );
}

function isWhole(given: unknown): given is { id?: unknown; data?: unknown } {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return false;
  const keys = Object.keys(given);
  return keys.length > 0 && keys.every((key) => key === 'id' || key === 'data');
}

function jsonOf(data: unknown): string | null | undefined {
  if (data === undefined) return null;
  try {
    const json = JSON.stringify(data) as string | undefined;
    return json === undefined || json.length > MOST_DATA || hasWhatJsonbRefuses(json) ? undefined : json;
  } catch {
    return undefined;
  }
}

/**
 * Works one delivery of a page. It resolves when the delivery is dealt with, also when the page has failed, and when it
 * was no ticket.
 */
export type PageWork = (ticket: PageTicket) => Promise<void>;

/** Takes deliveries of one job's pages in this process. */
export interface PageWorker {
  /** Takes nothing more, and resolves when the deliveries in hand have been dealt with. */
  stop(): Promise<void>;
}

/** What the scheduler gives a queue before it is used. */
export interface PageQueueContext {
  /** The schema of the scheduler's tables: two schedulers in one database are two. */
  readonly schema: string;
  /** The scheduler makes its own tables at start-up, so that the queue may do so, too. */
  readonly migrate: boolean;
  /** Settings of pg's `Client` for the scheduler's own database. @param applicationName as the server lists it */
  postgres(applicationName: string): Readonly<Record<string, unknown>>;
  /** Told what goes wrong between deliveries. */
  failed(error: unknown): void;
}

/**
 * A queue that spreads pages over workers. It delivers each ticket at least once, and decides nothing: whether a page
 * is done, is tried again or dead, is in `job_pages`. So it may deliver too often, late and in any order.
 */
export interface PageQueue {
  /** Called before anything else, and again when it has failed. */
  open?(context: PageQueueContext): Promise<void>;
  /** Keeps the tickets, all or with an error. One whose id waits already may be dropped; it is harmless twice. */
  enqueue(jobName: string, tickets: readonly PageTicket[]): Promise<void>;
  /**
   * Delivers the tickets of a job, at most so many at a time here. What rejects, or whose process dies, is delivered
   * again.
   */
  work(jobName: string, work: PageWork, options: { readonly concurrency: number }): PageWorker;
  /** Lets go of all connections. What is in hand is delivered again, to whoever is left. */
  close(): Promise<void>;
}

/** What a job's pages may say about themselves. Durations are milliseconds or strings such as `'30s'`. */
export interface PageOptions {
  /** How many pages of the job are worked at a time by each replica; 1 to 1000. @default 5 */
  concurrency?: number;
  /** Attempts before a page is dead and waits for a person, the first one included. @default the job's */
  maxAttempts?: number;
  /** What a failed page waits for before its next attempt. @default the job's */
  backoff?: BackoffOptions;
  /**
   * How long a page may take: then its signal aborts with a `TimeoutError`, and the attempt has failed when its handler
   * ends. @default none
   */
  timeout?: Duration;
}

/** How a job's pages are worked, every default filled in. */
export interface PagePolicies {
  readonly concurrency: number;
  readonly maxAttempts: number;
  readonly backoff: Backoff;
  readonly timeoutMs: number | null;
}

const PAGE_OPTIONS = {
  concurrency: { rule: integer({ atLeast: 1, atMost: 1_000 }) },
  maxAttempts: JOB_OPTIONS.maxAttempts,
  backoff: JOB_OPTIONS.backoff,
  timeout: { rule: duration({ atLeast: 1 }) },
} as const satisfies Record<keyof PageOptions, OptionTable[string]>;

const CONCURRENCY = 5;

/** @returns the policies, with all that is wrong with the options */
export function readPageOptions(
  given: unknown,
  job: JobDefinition,
): { readonly policies: PagePolicies; readonly problems: readonly string[] } {
  const { values, problems } = readObject(given, PAGE_OPTIONS);
  const { concurrency = CONCURRENCY, maxAttempts = job.maxAttempts, backoff = job.backoff, timeout = null } = values;
  return { policies: Object.freeze({ concurrency, maxAttempts, backoff, timeoutMs: timeout }), problems };
}
