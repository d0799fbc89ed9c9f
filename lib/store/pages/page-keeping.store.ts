import { pageTicket, type PageTicket } from '../../domain/effects/page.js';
import type { RunKey } from '../../domain/runs/run.js';
import { queryOn, type Query } from '../connection/query.js';
import type { SchedulerDatabase } from '../scheduler-database.js';

/** What has to be done about pages. */
export interface PageOutlook {
  /** Not handed to the queue, and due. */
  readonly toHandOver: readonly PageTicket[];
  /** Milliseconds until the next one is due; null when none waits. */
  readonly nextInMs: number | null;
  /** Occurrences that are to be cancelled, or whose pages have all ended, and that have not. */
  readonly toSettle: readonly RunKey[];
}

/** A page under way here, as it is to be checked. */
export interface PageInHand {
  readonly jobName: string;
  readonly fireTime: Date;
  readonly page: string;
  readonly attempt: number;
}

/** Pages in hand that are not to go on. */
export interface StoppedPage extends PageInHand {
  /** Why its occurrence is cancelled; null when another attempt has taken the page over. */
  readonly cancelled: string | null;
}

/** How long after its publication a page is left to the tick that published it. */
const PUBLISHER_HAS = `interval '5 seconds'`;

/** Looks after pages that nobody has in hand. */
export class PageKeepingStore {
  private readonly query: Query;

  constructor(private readonly database: SchedulerDatabase) {
    this.query = queryOn(database.coordination);
  }

  async outlook(jobNames: readonly string[], limit: number): Promise<PageOutlook> {
    const { tables } = this.database;
    const { jobRuns, jobPages } = tables;
    const rows = await this.query<{ jobName: string; fireTime: Date; page: string; ticket: number; inMs: number }>(
      `select page.job_name as "jobName", page.fire_time as "fireTime", page.page, page.ticket,
              greatest(0, extract(epoch from waits.until - clock_timestamp()) * 1000)::float8 as "inMs"
       from   ${jobPages} page
       join   ${jobRuns} run on run.job_name = page.job_name and run.fire_time = page.fire_time
       cross  join lateral (
         select case when page.attempt = 0 then greatest(page.next_attempt_at, page.created_at + ${PUBLISHER_HAS}) else page.next_attempt_at end as until) waits
       where  page.status in ('queued', 'failed')
       and    page.enqueued_at is null
       and    page.job_name = any ($1::text[])
       and    ${tables.qualify('run_works_pages_1')}(run.status, run.lease_until, run.cancel_requested_at)
       order  by page.next_attempt_at
       limit  $2`,
      [jobNames, limit],
    );
    const due = rows.filter(({ inMs }) => inMs === 0);
    const later = rows.filter(({ inMs }) => inMs > 0).map(({ inMs }) => inMs);
    const toSettle = await this.query<RunKey>(
      `select job_name as "jobName", fire_time as "fireTime"
       from   ${jobRuns} run
       where  status = 'fanned_out'
       and    job_name = any ($1::text[])
       and   (cancel_requested_at is not null or not exists (
                select from ${jobPages} page where page.job_name = run.job_name and page.fire_time = run.fire_time and ${tables.qualify('page_is_open_1')}(page.status)))`,
      [jobNames],
    );
    return { toHandOver: due.map((row) => pageTicket(row, row.ticket)), nextInMs: later.length > 0 ? Math.min(...later) : null, toSettle };
  }

  /**
   * Queues again what is under way in processes that are gone, and what the queue seems to have lost: of an occurrence in which
   * nothing has moved for a while, whatever it was given. A queue that has not lost it drops it, or delivers it once too often.
   * What waits of a run that was cancelled before its tick had ended waits for nobody.
   * @returns how many are queued again
   */
  async recover(jobNames: readonly string[], { goneForMs, stillForMs }: { readonly goneForMs: number; readonly stillForMs: number }): Promise<number> {
    const [row] = await this.database.call<{ pages_recover_1: number }>('pages_recover_1', [jobNames, goneForMs, stillForMs]);
    return row!.pages_recover_1;
  }

  /** Of pages that are under way here, those that are somebody else's by now, and those whose occurrence is to be cancelled. */
  async stopped(pages: readonly PageInHand[], instanceId: string): Promise<StoppedPage[]> {
    if (pages.length === 0) return [];
    const { jobRuns, jobPages } = this.database.tables;
    return this.query<StoppedPage>(
      `select held.job_name as "jobName", held.fire_time as "fireTime", held.page, held.attempt,
              case when page.page is not null then coalesce(run.cancel_reason, run.reason, run.status) end as cancelled
       from   unnest($1::text[], $2::timestamptz[], $3::text[], $4::integer[]) as held (job_name, fire_time, page, attempt)
       left   join ${jobPages} page on page.job_name = held.job_name and page.fire_time = held.fire_time and page.page = held.page
                and page.attempt = held.attempt and page.claimed_by = $5 and page.status = 'running'
       left   join ${jobRuns} run on run.job_name = held.job_name and run.fire_time = held.fire_time
       where  page.page is null
       or     run.cancel_requested_at is not null
       or     run.status = 'cancelled'`,
      [pages.map(({ jobName }) => jobName), pages.map(({ fireTime }) => fireTime.toISOString()), pages.map(({ page }) => page), pages.map(({ attempt }) => attempt), instanceId],
    );
  }
}
