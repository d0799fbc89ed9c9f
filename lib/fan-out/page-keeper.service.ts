import { Inject, Injectable } from '@nestjs/common';
import { monotonicNow } from '../database/clock.js';
import { forEachSettled } from '../database/collections.js';
import type { SchedulerEvent } from '../observe/scheduler-event.js';
import { Duty } from '../observe/duty.js';
import { type Query, queryOn } from '../database/query.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import { KnownJobs } from '../jobs/known-jobs.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { runId, type RunKey } from '../options/run.js';
import { INSTANCE_ID, SCHEDULER_OPTIONS } from '../options/tokens.js';
import type { InFlightRun } from '../runs/in-flight-runs.js';
import { RefusedData } from '../runs/refused-data.js';
import { PageAttemptStore } from './page.repository.js';
import { PageEndings } from './page-endings.service.js';
import { PagesInFlight } from './page-executor.service.js';
import { PageHandOver } from './page-queues.js';
import { pageTicket, type PageTicket } from './page.js';

/** What has to be done about pages. */
interface PageOutlook {
  /** Not handed to the queue, and due. */
  readonly toHandOver: readonly PageTicket[];
  /** Milliseconds until the next one is due; null when none waits. */
  readonly nextInMs: number | null;
  /** Occurrences that are to be cancelled, or whose pages have all ended, and that have not. */
  readonly toSettle: readonly RunKey[];
}

/** A page under way here, as it is to be checked. */
interface PageInHand {
  readonly jobName: string;
  readonly fireTime: Date;
  readonly page: string;
  readonly attempt: number;
}

/** Pages in hand that are not to go on. */
interface StoppedPage extends PageInHand {
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

  /** @param resting runs whose pages are not handed over for now */
  async outlook(jobNames: readonly string[], limit: number, resting: readonly RunKey[] = []): Promise<PageOutlook> {
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
       and   (page.job_name, page.fire_time) not in (select * from unnest($3::text[], $4::timestamptz[]))
       and    ${tables.qualify('run_works_pages_1')}(run.status, run.lease_until, run.cancel_requested_at)
       order  by page.next_attempt_at
       limit  $2`,
      [jobNames, limit, resting.map(({ jobName }) => jobName), resting.map(({ fireTime }) => fireTime.toISOString())],
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
    return {
      toHandOver: due.map((row) => pageTicket(row, row.ticket)),
      nextInMs: later.length > 0 ? Math.min(...later) : null,
      toSettle,
    };
  }

  /** Occurrences whose pages have not all ended. */
  open(jobNames: readonly string[]): Promise<RunKey[]> {
    const { tables } = this.database;
    return this.query<RunKey>(
      `select distinct job_name as "jobName", fire_time as "fireTime"
       from   ${tables.jobPages}
       where  ${tables.qualify('page_is_open_1')}(status)
       and    job_name = any ($1::text[])`,
      [jobNames],
    );
  }

  /**
   * Queues again what is under way in processes that are gone, and what the queue seems to have lost: of an occurrence
   * in which nothing has moved for a while, whatever it was given. A queue that has not lost it drops it, or delivers
   * it once too often. What waits of a run that was cancelled before its tick had ended waits for nobody.
   * @returns how many are queued again
   */
  async recover(
    runs: readonly RunKey[],
    { goneForMs, stillForMs }: { readonly goneForMs: number; readonly stillForMs: number },
  ): Promise<number> {
    const values = [
      runs.map(({ jobName }) => jobName),
      runs.map(({ fireTime }) => fireTime.toISOString()),
      goneForMs,
      stillForMs,
    ];
    const [row] = await this.database.call<{ pages_recover_1: number }>('pages_recover_1', values);
    return row!.pages_recover_1;
  }

  /**
   * Of pages that are under way here, those that are somebody else's by now, and those whose occurrence is to be
   * cancelled.
   */
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
      [
        pages.map(({ jobName }) => jobName),
        pages.map(({ fireTime }) => fireTime.toISOString()),
        pages.map(({ page }) => page),
        pages.map(({ attempt }) => attempt),
        instanceId,
      ],
    );
  }
}

const AT_ONCE = 500;

/** How often pages are looked for that are lost, in milliseconds. */
const RECOVER_EVERY_MS = 60_000;

/**
 * A page is queued again this long after its process was last seen, in milliseconds: the queue itself is usually
 * faster.
 */
const GONE_FOR_MS = 120_000;

/**
 * What a queue was given is given once more when nothing of its occurrence has moved for this long, in milliseconds.
 */
const STILL_FOR_MS = 600_000;

/**
 * Does for pages what nobody in particular does: hands over what is due and was not handed over (after a failure, a
 * replay, or a crash in between), ends occurrences that are cancelled, tells handlers here that their page is no longer
 * theirs, and finds what the queue has lost.
 */
@Injectable()
export class PageKeeper extends Duty {
  private readonly refused: RefusedData;
  private recoveredAt = -Infinity;

  constructor(
    @Inject(SCHEDULER_OPTIONS) options: ResolvedSchedulerOptions,
    @Inject(INSTANCE_ID) private readonly instanceId: string,
    private readonly known: KnownJobs,
    private readonly store: PageKeepingStore,
    private readonly attempts: PageAttemptStore,
    private readonly endings: PageEndings,
    private readonly handOver: PageHandOver,
    private readonly pages: PagesInFlight,
    events: SchedulerEvents,
  ) {
    super(events, { name: 'page keeper', maxSleepMs: options.pollIntervalMs });
    this.refused = new RefusedData(events);
  }

  protected pass(): Promise<number> {
    return this.keep();
  }

  override hear(event: SchedulerEvent): void {
    if (event.type === 'run.fannedOut') this.wake();
    if (event.type === 'page.failed') this.wakeWithin(event.retryInMs);
  }

  /** Without handlers of pages there is nothing to keep. */
  override start(): void {
    if (this.known.pageJobs().length > 0) super.start();
  }

  /**
   * One pass: what fails in a step fails the pass, once the others are done. @returns milliseconds until a page is due
   */
  async keep(): Promise<number> {
    const jobNames = this.known.pageJobs();
    let sleep = Infinity;
    await oneAfterTheOther(
      () => this.stopPages(),
      () => this.recover(jobNames),
      async () => {
        const { toHandOver, nextInMs, toSettle } = await this.store.outlook(
          jobNames,
          AT_ONCE,
          this.handOver.resting().runs,
        );
        await oneAfterTheOther(
          () => this.settle(toSettle),
          () => this.handOver.hand(toHandOver),
        );
        sleep = toHandOver.length === AT_ONCE ? 0 : Math.min(nextInMs ?? Infinity, this.handOver.resting().forMs);
      },
    );
    return sleep;
  }

  private async recover(jobNames: readonly string[]): Promise<void> {
    if (monotonicNow() - this.recoveredAt < RECOVER_EVERY_MS) return;
    await this.refused.takeApart('recover', await this.store.open(jobNames), runId, async (part) => [
      await this.store.recover(part, { goneForMs: GONE_FOR_MS, stillForMs: STILL_FOR_MS }),
    ]);
    this.recoveredAt = monotonicNow();
  }

  private async settle(runs: readonly RunKey[]): Promise<void> {
    for (const run of runs) {
      const [ended] = await this.refused.takeApart('settle', [run], runId, async () => [
        await this.attempts.settle(run),
      ]);
      if (ended) this.endings.ended(ended);
    }
  }

  private async stopPages(): Promise<void> {
    const here = this.pages.list().filter((run) => !run.leaseLost && !run.ending);
    const inHand = here.map(({ owned }) => ({ ...owned, page: owned.page! }));
    for (const { jobName, fireTime, page, attempt, cancelled } of await this.store.stopped(inHand, this.instanceId)) {
      const isIt = ({ owned }: InFlightRun) =>
        owned.jobName === jobName &&
        owned.fireTime.getTime() === fireTime.getTime() &&
        owned.page === page &&
        owned.attempt === attempt;
      const run = here.find(isIt);
      if (!run) continue;
      if (cancelled === null) this.pages.lose(run, 'taken over');
      else run.cancel(cancelled);
    }
  }
}

function oneAfterTheOther(...steps: (() => Promise<void>)[]): Promise<void> {
  return forEachSettled(
    steps,
    () => false,
    (step) => step(),
  );
}
