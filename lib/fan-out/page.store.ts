import type { PartitionStore } from '../database/partition.store.js';
import { type Query, queryOn } from '../database/query.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import type { Tables } from '../database/tables.js';
import type { OwnedRun, RunKey } from '../options/run.js';
import { fenceOf, type WrittenEnd } from '../runs/job-run.repository.js';
import { type PageProgress, pageTicket, type PageTicket } from './page.js';

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
