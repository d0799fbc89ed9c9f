import type { PartitionStore } from '../database/partition.store.js';
import { type Query, queryOn } from '../database/query.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import type { Tables } from '../database/tables.js';
import type { OwnedRun, RunKey, RunStatus, RunTrigger } from '../options/run.js';
import { fenceOf, type WrittenEnd } from '../runs/job-run.repository.js';
import type { RunEnd } from '../runs/outcome.js';
import { type PageProgress, pageTicket, type PageTicket, type PageKey, type PageStatus } from './page.js';
import type { StoredError } from '../errors/stored-error.js';

/** Counts an occurrence's pages. */
export async function pageProgress(
  query: Query,
  { jobPages }: Tables,
  { jobName, fireTime }: RunKey,
): Promise<PageProgress> {
  const [row] = await query<PageProgress>(
    `select count(*)::integer as total,
            count(*) filter (where status = 'done')::integer as done,
            count(*) filter (where status = 'queued')::integer as queued,
            count(*) filter (where status = 'running')::integer as running,
            count(*) filter (where status = 'failed')::integer as failed,
            count(*) filter (where status = 'dead')::integer as dead,
            count(*) filter (where status = 'cancelled')::integer as cancelled
     from   ${jobPages}
     where  job_name = $1
     and    fire_time = $2`,
    [jobName, fireTime.toISOString()],
  );
  return row!;
}

/** A page to be published: its data as JSON, null for none. */
export interface NewPage {
  readonly page: string;
  readonly data: string | null;
}

/** Writes an occurrence's pages, and hands their tickets on. */
export class PageStore {
  private readonly query: Query;

  constructor(
    private readonly database: SchedulerDatabase,
    private readonly partitions: PartitionStore,
  ) {
    this.query = queryOn(database.coordination);
  }

  /**
   * Writes those that are not there, if the run is ours; whoever ends it at the same moment waits for the end of this.
   * @returns how many were new; null when the run is no longer ours
   */
  async add(run: OwnedRun, pages: readonly NewPage[]): Promise<number | null> {
    const values = [...fenceOf(run), pages.map(({ page }) => page), pages.map(({ data }) => data)];
    const [row] = await this.partitions.makingSure(
      () => [run.fireTime],
      () => this.database.call<{ pages_publish_1: number | null }>('pages_publish_1', values),
    );
    return row!.pages_publish_1;
  }

  /** Of these pages, the tickets that nobody has handed to the queue. */
  async toHandOver({ jobName, fireTime }: RunKey, pages: readonly string[]): Promise<PageTicket[]> {
    const rows = await this.query<{ page: string; ticket: number }>(
      `select page, ticket
       from   ${this.database.tables.jobPages}
       where  job_name = $1
       and    fire_time = $2
       and    page = any ($3::text[])
       and    status in ('queued', 'failed')
       and    enqueued_at is null
       and    next_attempt_at <= clock_timestamp()`,
      [jobName, fireTime.toISOString(), pages],
    );
    return rows.map(({ page, ticket }) => pageTicket({ jobName, fireTime, page }, ticket));
  }

  /** The tickets of an occurrence's pages that may begin, whoever has them. */
  async open({ jobName, fireTime }: RunKey): Promise<PageTicket[]> {
    const rows = await this.query<{ page: string; ticket: number }>(
      `select page, ticket
       from   ${this.database.tables.jobPages}
       where  job_name = $1
       and    fire_time = $2
       and    status in ('queued', 'failed')
       and    next_attempt_at <= clock_timestamp()
       order  by page`,
      [jobName, fireTime.toISOString()],
    );
    return rows.map(({ page, ticket }) => pageTicket({ jobName, fireTime, page }, ticket));
  }

  /** Notes that the queue has them. One that is changed right now is handed over once more, which is harmless. */
  async handedOver(tickets: readonly PageTicket[]): Promise<void> {
    if (tickets.length === 0) return;
    await this.database.call('pages_handed_over_1', [
      tickets.map(({ jobName }) => jobName),
      tickets.map(({ fireTime }) => fireTime.toISOString()),
      tickets.map(({ page }) => page),
      tickets.map(({ ticket }) => ticket),
    ]);
  }

  progress(run: RunKey): Promise<PageProgress> {
    return pageProgress(this.query, this.database.tables, run);
  }
}

/** Lets go of a run that has published pages. */
export class FanOutStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /**
   * Completes a run that may have pages. If it has, it needs no lease and no owner from now on: the last of them ends
   * it, and when all have ended already, this does. Without pages it is done.
   * @returns null when the run is no longer ours
   */
  async complete(run: OwnedRun): Promise<WrittenEnd | null> {
    const [row] = await this.database.call<Omit<WrittenEnd, 'status'> & { status: WrittenEnd['status'] | null }>(
      'run_fan_out_1',
      fenceOf(run),
    );
    const { status, ...end } = row!;
    return status === null ? null : { status, ...end };
  }
}

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
type PageClaim =
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
    { status, error, reason, retryInMs, releases }: RunEnd,
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
