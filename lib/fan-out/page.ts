import { createHash } from 'node:crypto';
import { hasWhatJsonbRefuses, type StoredError } from '../errors/stored-error.js';
import type { RunKey } from '../options/run.js';
import { Column, Entity, PrimaryColumn } from 'typeorm';

/** Where a page of a run stands. */
export type PageStatus = 'queued' | 'running' | 'done' | 'failed' | 'dead' | 'cancelled';

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
type PageReading = { readonly page: string; readonly data: string | null } | { readonly problem: string };

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

function isPageId(page: unknown): page is string {
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

/** One part of an occurrence that was fanned out. Partitioned like `job_runs`, and dropped with it. */
@Entity({ name: 'job_pages' })
export class JobPage {
  @PrimaryColumn('text', { name: 'job_name' })
  jobName!: string;

  @PrimaryColumn('timestamptz', { name: 'fire_time' })
  fireTime!: Date;

  @PrimaryColumn('text')
  page!: string;

  /** What it was published with. */
  @Column('jsonb', { nullable: true })
  data!: unknown;

  @Column('text', { default: 'queued' })
  status!: PageStatus;

  /** 1, 2, …; the fencing token of whatever its handler writes. */
  @Column('integer', { default: 0 })
  attempt!: number;

  /** Attempts that do not count: handed back by a stopping instance, or from before a replay. */
  @Column('integer', { default: 0 })
  releases!: number;

  /** How often it was queued again: of the deliveries that a queue makes, only those that say so may begin it. */
  @Column('integer', { default: 0 })
  ticket!: number;

  @Column('text', { name: 'claimed_by', nullable: true })
  claimedBy!: string | null;

  @Column('timestamptz', { name: 'started_at', nullable: true })
  startedAt!: Date | null;

  @Column('timestamptz', { name: 'finished_at', nullable: true })
  finishedAt!: Date | null;

  @Column('timestamptz', { name: 'next_attempt_at', nullable: true })
  nextAttemptAt!: Date | null;

  /** When its ticket was handed to the queue; null when it has to be. */
  @Column('timestamptz', { name: 'enqueued_at', nullable: true })
  enqueuedAt!: Date | null;

  @Column('jsonb', { nullable: true })
  error!: StoredError | null;

  @Column('text', { nullable: true })
  reason!: string | null;

  @Column('timestamptz', { name: 'created_at', default: () => 'clock_timestamp()' })
  createdAt!: Date;
}
