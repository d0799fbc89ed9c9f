import type { PageKey, PageStatus, PageTicket } from './page.js';
import type { RunKey, RunStatus, RunTrigger } from '../options/run.js';
import type { StoredError } from '../errors/stored-error.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';

/** An attempt of a page that is this process'. */
export interface OwnedPage extends PageKey {
  readonly attempt: number;
  readonly releases: number;
  readonly instanceId: string;
  readonly trigger: RunTrigger;
  readonly data: unknown;
  /** What the occurrence was given; null for nothing of its own. */
  readonly runData: unknown;
}

/** What a delivery found. */
export type PageClaim =
  | { readonly kind: 'claimed'; readonly page: OwnedPage }
  /**
   * Somebody holds the row, to end a receipt, or to begin or end the page: to be tried again with the attempt that was
   * seen.
   */
  | { readonly kind: 'held'; readonly seenAttempt: number }
  /**
   * The ticket is worth nothing: its page has ended, waits for its next attempt, or was begun by another delivery since
   * it was seen, or its run is over or waits to be started.
   */
  | { readonly kind: 'over' };

/** How a page's attempt ended. */
export interface PageEnding {
  readonly status: Exclude<PageStatus, 'running'>;
  readonly error: StoredError | null;
  readonly reason: string | null;
  /** Milliseconds to the next attempt; null when there is none. */
  readonly retryInMs: number | null;
  /** 1 when the attempt was handed back and does not count. */
  readonly releases: 0 | 1;
}

/** The end of an occurrence, by its last page. */
export interface EndedRun extends RunKey {
  readonly status: Extract<RunStatus, 'done' | 'dead' | 'cancelled'>;
  readonly attempt: number;
  readonly reason: string | null;
  readonly error: StoredError | null;
  readonly pages: number;
  /** Since the start of the attempt that fanned it out. */
  readonly tookMs: number;
}

/** A page's end as the database has it, and the end of its occurrence if it was the last. */
export interface WrittenPageEnd {
  readonly status: PageStatus;
  readonly run: EndedRun | null;
}

/**
 * The transitions of a page's attempts. Each names the attempt it belongs to: of two deliveries, the later one has
 * raised it.
 */
export class PageAttemptStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /**
   * Begins the next attempt of a page. Who worked it before and has not ended it is dead, frozen, or cut off from the
   * queue: what it has open of receipts is ended, and what it writes from now on is refused.
   * @param seenAttempt what the same delivery has seen before; null for one that has not looked yet
   */
  async claim(
    { jobName, fireTime, page, ticket }: PageTicket,
    instanceId: string,
    seenAttempt: number | null = null,
  ): Promise<PageClaim> {
    const [row] = await this.database.call<BegunRow>('page_begin_1', [
      jobName,
      fireTime.toISOString(),
      page,
      ticket,
      instanceId,
      seenAttempt,
    ]);
    const { verdict, run_data: runData, ...begun } = row!;
    if (verdict === 'claimed')
      return { kind: verdict, page: { ...begun, runData, jobName, fireTime, page, instanceId } };
    return verdict === 'held' ? { kind: verdict, seenAttempt: begun.attempt } : { kind: verdict };
  }

  /**
   * Ends an attempt, and the occurrence when it was the last of its pages. One that is to be cancelled is begun no
   * more.
   * @returns null when the page is no longer ours
   */
  async end(
    { jobName, fireTime, page, attempt, instanceId }: OwnedPage,
    { status, error, reason, retryInMs, releases }: PageEnding,
  ): Promise<WrittenPageEnd | null> {
    const values = [
      jobName,
      fireTime.toISOString(),
      page,
      attempt,
      instanceId,
      status,
      error && JSON.stringify(error),
      reason,
      retryInMs,
      releases,
    ];
    const [row] = await this.database.call<{ page_status: PageStatus | null; ended_run: EndedFacts | null }>(
      'page_end_1',
      values,
    );
    const { page_status: written, ended_run: run } = row!;
    return written === null ? null : { status: written, run: run && { ...run, jobName, fireTime } };
  }

  /**
   * Cancels what waits of an occurrence that is to be cancelled, and ends it if nothing of it is under way. @returns
   * its end
   */
  async settle({ jobName, fireTime }: RunKey): Promise<EndedRun | null> {
    const [row] = await this.database.call<{ pages_settle_1: EndedFacts | null }>('pages_settle_1', [
      jobName,
      fireTime.toISOString(),
    ]);
    const { pages_settle_1: ended } = row!;
    return ended && { ...ended, jobName, fireTime };
  }
}

interface BegunRow extends Pick<OwnedPage, 'attempt' | 'releases' | 'data' | 'trigger'> {
  readonly verdict: PageClaim['kind'];
  readonly run_data: unknown;
}

type EndedFacts = Omit<EndedRun, 'jobName' | 'fireTime'>;
