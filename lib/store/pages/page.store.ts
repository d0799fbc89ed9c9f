import { pageTicket, type PageProgress, type PageTicket } from '../../domain/effects/page.js';
import type { OwnedRun, RunKey } from '../../domain/runs/run.js';
import { fenceOf, IS_OURS } from '../runs/fence.js';
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
    const { jobRuns, jobPages } = this.database.tables;
    const [row] = await this.partitions.makingSure(
      () => [run.fireTime],
      () =>
        this.query<{ owned: boolean; added: number }>(
          `with owned as materialized (
             select job_name, fire_time
             from   ${jobRuns}
             where  ${IS_OURS}
             for    key share
           ),
           added as (
             insert into ${jobPages} (job_name, fire_time, page, data, next_attempt_at)
             select owned.job_name, owned.fire_time, given.page, given.data::jsonb, clock_timestamp()
             from   owned
             cross  join unnest($5::text[], $6::text[]) as given (page, data)
             order  by given.page
             on conflict (job_name, fire_time, page) do nothing
             returning 1
           )
           select exists (select from owned) as owned,
                 (select count(*)::integer from added) as added`,
          [...fenceOf(run), pages.map(({ page }) => page), pages.map(({ data }) => data)],
        ),
    );
    return row!.owned ? row!.added : null;
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
    const { jobPages } = this.database.tables;
    await this.query(
      `with handed as (
         select page.job_name, page.fire_time, page.page
         from   ${jobPages} page
         join   unnest($1::text[], $2::timestamptz[], $3::text[], $4::integer[]) as given (job_name, fire_time, page, ticket)
                  on given.job_name = page.job_name and given.fire_time = page.fire_time and given.page = page.page and given.ticket = page.ticket
         where  page.status in ('queued', 'failed')
         for    no key update of page skip locked
       )
       update ${jobPages} page
       set    enqueued_at = clock_timestamp()
       from   handed
       where  page.job_name = handed.job_name
       and    page.fire_time = handed.fire_time
       and    page.page = handed.page`,
      [tickets.map(({ jobName }) => jobName), tickets.map(({ fireTime }) => fireTime.toISOString()), tickets.map(({ page }) => page), tickets.map(({ ticket }) => ticket)],
    );
  }

  progress(run: RunKey): Promise<PageProgress> {
    return pageProgress(this.query, this.database.tables, run);
  }
}
