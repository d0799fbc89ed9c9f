import type { PageKey, PageStatus, PageTicket } from '../../domain/effects/page.js';
import type { RunKey, RunStatus, RunTrigger } from '../../domain/runs/run.js';
import type { StoredError } from '../../domain/runs/stored-error.js';
import { mayEndSessionsOf } from '../connection/may-end-session.js';
import { inOneMessage } from '../connection/one-message.js';
import { cancelWaitingPages, endFannedOut } from './page-ends.js';
import { lockPages } from './page-lock.js';
import { receiptLockKey } from '../receipts/receipt-lock.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import type { Tables } from '../tables.js';

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
  /** Somebody holds the row, to end a receipt or to end the page: to be tried again. */
  | { readonly kind: 'held' }
  /** The ticket is worth nothing: its page has ended or waits for its next attempt, or its run is over or waits to be started. */
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

/** The statements of a page's attempts. Each names the attempt it belongs to: of two deliveries, the later one has raised it. */
export class PageAttemptStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /**
   * Begins the next attempt of a page. Who worked it before and has not ended it is dead, frozen, or cut off from the queue: what it
   * has open of receipts is ended, and what it writes from now on is refused.
   */
  async claim(ticket: PageTicket, instanceId: string): Promise<PageClaim> {
    const { tables } = this.database;
    const { jobRuns, jobPages } = tables;
    const [claimed] = await inOneMessage<Omit<OwnedPage, 'jobName' | 'fireTime' | 'page' | 'instanceId'>>(this.database.coordination, (json) => {
      const isIt = (page: string) => `${keyIs(json, ticket)(page)} and ${page}.page = ${json(ticket.page)} #>> '{}' and ${page}.ticket = ${ticket.ticket}`;
      return [
        endReceipts(`from ${jobPages} page where ${isIt('page')} and page.attempt > 0 and page.status <> 'done'`, tables),
        // For update: a receipt that is about to commit holds its page, and is waited for; a lock of another strength would pass it.
        `with free as (
           select page.job_name, page.fire_time, page.page
           from   ${jobPages} page
           where  ${isIt('page')}
           and    page.status in ('queued', 'failed', 'running')
           for    update skip locked
         )
         update ${jobPages} page
         set    status = 'running',
                attempt = page.attempt + 1,
                claimed_by = ${json(instanceId)} #>> '{}',
                started_at = clock_timestamp(),
                finished_at = null,
                next_attempt_at = null,
                reason = null
         from   free
         join   ${jobRuns} run on run.job_name = free.job_name and run.fire_time = free.fire_time
         where  page.job_name = free.job_name
         and    page.fire_time = free.fire_time
         and    page.page = free.page
         and    ${tables.qualify('run_works_pages_1')}(run.status, run.lease_until, run.cancel_requested_at)
         returning page.attempt, page.releases, page.data, run.trigger, run.data as "runData"`,
      ];
    });
    if (claimed) return { kind: 'claimed', page: { ...claimed, jobName: ticket.jobName, fireTime: ticket.fireTime, page: ticket.page, instanceId } };
    return { kind: await this.giveBack(ticket) };
  }

  /**
   * Ends an attempt, and the occurrence when it was the last of its pages. One that is to be cancelled is begun no more.
   * @returns null when the page is no longer ours
   */
  async end(page: OwnedPage, ending: PageEnding): Promise<WrittenPageEnd | null> {
    const { tables } = this.database;
    const { jobRuns, jobPages } = tables;
    const [row] = await inOneMessage<EndRow>(this.database.coordination, (json) => {
      const key = keyIs(json, page);
      const isIt = `${key('page')} and page.page = ${json(page.page)} #>> '{}' and page.attempt = ${page.attempt} and page.claimed_by = ${json(page.instanceId)} #>> '{}'`;
      const given = `jsonb_to_record(${json(ending)}) as given (status text, error jsonb, reason text, "retryInMs" bigint, releases integer)`;
      return [
        lockPages(tables.schema, ...keyOf(json, page)),
        `update ${jobPages} page
         set    status = became.status,
                error = given.error,
                reason = case when became.status = given.status then given.reason else run.cancel_reason end,
                finished_at = clock_timestamp(),
                next_attempt_at = case when became.status in ('queued', 'failed') then clock_timestamp() + given."retryInMs" * interval '1 millisecond' end,
                enqueued_at = null,
                ticket = page.ticket + 1,
                releases = page.releases + given.releases
         from   ${jobRuns} run
         cross  join ${given}
         cross  join lateral (
           select case when run.cancel_requested_at is not null and given.status in ('queued', 'failed') then 'cancelled' else given.status end as status) became
         where  ${isIt}
         and    page.status = 'running'
         and    ${key('run')}`,
        `with ended as (${endFannedOut(tables, key)}
         returning ${ENDED_RUN})
         select page.status, to_jsonb(ended) as run
         from   ${jobPages} page
         left   join ended on true
         where  ${isIt}
         and    page.status <> 'running'`,
      ];
    });
    return row ? { status: row.status, run: row.run && { ...row.run, jobName: page.jobName, fireTime: page.fireTime } } : null;
  }

  /** Cancels what waits of an occurrence that is to be cancelled, and ends it if nothing of it is under way. @returns its end */
  async settle(run: RunKey): Promise<EndedRun | null> {
    const { tables } = this.database;
    const [ended] = await inOneMessage<Omit<EndedRun, 'jobName' | 'fireTime'>>(this.database.coordination, (json) => {
      const key = keyIs(json, run);
      return [lockPages(tables.schema, ...keyOf(json, run)), cancelWaitingPages(tables, key), `${endFannedOut(tables, key)} returning ${ENDED_RUN}`];
    });
    return ended ? { ...ended, jobName: run.jobName, fireTime: run.fireTime } : null;
  }

  private async giveBack({ jobName, fireTime, page, ticket }: PageTicket): Promise<'held' | 'over'> {
    const [row] = await this.database.call<{ page_give_back_1: 'held' | 'over' }>('page_give_back_1', [jobName, fireTime.toISOString(), page, ticket]);
    return row!.page_give_back_1;
  }
}

const ENDED_RUN = `run.status, run.attempt, run.reason, run.error, run.pages,
           (extract(epoch from run.finished_at - run.started_at) * 1000)::float8 as "tookMs"`;

interface EndRow {
  status: PageStatus;
  run: Omit<EndedRun, 'jobName' | 'fireTime'> | null;
}

type Json = (value: unknown) => string;

function keyOf(json: Json, { jobName, fireTime }: RunKey): [jobName: string, fireTime: string] {
  return [`(${json(jobName)} #>> '{}')`, `(${json(fireTime.toISOString())} #>> '{}')::timestamptz`];
}

function keyIs(json: Json, run: RunKey): (alias: string) => string {
  const [jobName, fireTime] = keyOf(json, run);
  return (alias) => `${alias}.job_name = ${jobName} and ${alias}.fire_time = ${fireTime}`;
}

/**
 * SQL that ends the transactions in which the last attempt of a page still holds a receipt. Laterally, so that the server's locks are
 * looked at only where there was one. @param which SQL from `from` on, of `page`
 */
function endReceipts(which: string, tables: Tables): string {
  return `with stale as materialized (
           select ${receiptLockKey(tables, 'page.job_name', 'page.fire_time', 'page.attempt', 'page.page')} as key
           ${which}
         )
         select pg_terminate_backend(holder.pid)
         from   stale
         cross  join lateral (
           select held.pid
           from   pg_locks held
           join   pg_stat_activity backend on backend.pid = held.pid and ${mayEndSessionsOf('backend.usesysid')}
           where  held.locktype = 'advisory'
           and    held.objsubid = 1
           and    held.granted
           and    held.database = (select oid from pg_database where datname = current_database())
           and    (held.classid::bigint << 32) | held.objid::bigint = stale.key
           offset 0) holder`;
}
