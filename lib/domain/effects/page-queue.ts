import type { PageTicket } from './page.js';

/** Works one delivery of a page. It resolves when the delivery is dealt with, also when the page has failed, and when it was no ticket. */
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
 * A queue that spreads pages over workers. It delivers each ticket at least once, and decides nothing: whether a page is done, is
 * tried again or dead, is in `job_pages`. So it may deliver too often, late and in any order.
 */
export interface PageQueue {
  /** Called before anything else, and again when it has failed. */
  open?(context: PageQueueContext): Promise<void>;
  /** Keeps the tickets, all or with an error. One whose id waits already may be dropped; it is harmless twice. */
  enqueue(jobName: string, tickets: readonly PageTicket[]): Promise<void>;
  /**
   * Delivers the tickets of a job, at most so many at a time here. What rejects, or whose process dies, is delivered again.
   */
  work(jobName: string, work: PageWork, options: { readonly concurrency: number }): PageWorker;
  /** Lets go of all connections. What is in hand is delivered again, to whoever is left. */
  close(): Promise<void>;
}
