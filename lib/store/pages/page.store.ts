import { pageTicket, type PageProgress, type PageTicket } from '../../domain/effects/page.js';
import type { OwnedRun, RunKey } from '../../domain/runs/run.js';
import { fenceOf } from '../runs/fence.js';
import { pageProgress } from './page-progress.js';
import type { PartitionStore } from '../upkeep/partition.store.js';
import { queryOn, type Query } from '../connection/query.js';
import type { SchedulerDatabase } from '../scheduler-database.js';

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
   * Writes those that are not there, if the run is ours: whoever takes it over waits for the end of this.
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
