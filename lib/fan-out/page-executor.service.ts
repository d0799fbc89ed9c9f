import { Inject, Injectable } from '@nestjs/common';
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';
import { monotonicNow } from '../database/clock.js';
import { describeError } from '../errors/stored-error.js';
import { KnownJobs, type RegisteredJob, type PageHandler } from '../jobs/known-jobs.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { INSTANCE_ID } from '../options/tokens.js';
import { IdempotencyKeys } from '../runs/idempotency-key.js';
import { CronRun, cronRunFacts } from '../runs/cron-run.js';
import { InFlightRun, InFlightRuns } from '../runs/in-flight-runs.js';
import { RunContext } from '../runs/run-context.js';
import { type OwnedPage, PageAttemptStore } from './page.repository.js';
import { PageEndings } from './page-endings.service.js';
import { type PageTicket, readTicket } from './page.js';

/** The pages whose handlers are under way in this process. They have no leases, and take no place of the runs'. */
@Injectable()
export class PagesInFlight extends InFlightRuns {}

/**
 * How soon a page is tried again whose row somebody holds, in milliseconds, and for how long before the delivery is
 * given back.
 */
const LOOK_AGAIN_MS = 100;
const PATIENCE_MS = 10_000;

/** How much is shown of what is no ticket, in characters. */
const MOST_SHOWN = 300;

/** A page has no lease. */
const NEVER = new Date(8.64e15);

/** Works deliveries of pages: claims, runs the handler in the run's context, and has the end written. */
@Injectable()
export class PageExecutor {
  constructor(
    private readonly known: KnownJobs,
    private readonly store: PageAttemptStore,
    private readonly pages: PagesInFlight,
    private readonly context: RunContext,
    private readonly endings: PageEndings,
    private readonly events: SchedulerEvents,
    private readonly keys: IdempotencyKeys,
    @Inject(INSTANCE_ID) private readonly instanceId: string,
  ) {}

  /**
   * What the queue of that job has delivered. Whoever can write to the queue can have it deliver anything: what is no
   * ticket of the job is told and dropped, for delivered again it would be none either.
   */
  async deliver(jobName: string, given: unknown): Promise<void> {
    const ticket = readTicket(given);
    if (ticket?.jobName === jobName) return this.work(ticket);
    const shown = inspect(given, { depth: 0, maxStringLength: 100, maxArrayLength: 0, breakLength: Infinity }).slice(
      0,
      MOST_SHOWN,
    );
    const error = new Error(
      `The page queue of job "${jobName}" has delivered what is no ticket of it, and it was dropped. Look at who can write to the queue: ${shown}`,
    );
    this.events.emit({ type: 'loop.failed', loop: 'page queue', error: describeError(error), failures: 1 });
  }

  /** One delivery. It rejects only when it cannot be dealt with now, and is to be made again. */
  async work(ticket: PageTicket): Promise<void> {
    const job = this.known.get(ticket.jobName);
    const page = this.known.pageHandler(ticket.jobName);
    if (!job || !page) throw new Error(`No handler for the pages of job "${ticket.jobName}" on this instance`);
    const owned = await this.claim(ticket);
    if (!owned) return;
    if (owned.attempt - owned.releases > page.policies.maxAttempts) return this.endings.lost(owned);
    await this.execute(owned, job, page);
  }

  private async claim(ticket: PageTicket): Promise<OwnedPage | null> {
    const giveUpAt = monotonicNow() + PATIENCE_MS;
    let seenAttempt: number | null = null;
    for (;;) {
      const claim = await this.store.claim(ticket, this.instanceId, seenAttempt);
      if (claim.kind === 'claimed') return claim.page;
      if (claim.kind === 'over') return null;
      seenAttempt = claim.seenAttempt;
      if (monotonicNow() > giveUpAt)
        throw new Error(
          `Page ${ticket.page} of ${ticket.jobName} of ${ticket.fireTime.toISOString()} is held by another transaction`,
        );
      await sleep(LOOK_AGAIN_MS, undefined, { ref: false });
    }
  }

  private async execute(owned: OwnedPage, job: RegisteredJob, page: PageHandler): Promise<void> {
    const { jobName, fireTime, attempt } = owned;
    const run = inFlight(owned, job, page);
    this.pages.add(run);
    const { timeoutMs } = page.policies;
    const timer =
      timeoutMs === null ? null : setTimeout(() => run.timeOut('timeout'), Math.min(timeoutMs, 2 ** 31 - 1));
    timer?.unref();
    this.events.emit({ type: 'page.started', jobName, fireTime, page: owned.page, attempt });
    try {
      const thrown = await this.handle(run, owned, job, page);
      await this.endings.write(run, owned, page.policies, thrown);
    } finally {
      if (timer) clearTimeout(timer);
      this.pages.remove(run);
    }
  }

  /** @returns what the handler threw, in a list; an empty one when it returned */
  private async handle(
    run: InFlightRun,
    owned: OwnedPage,
    job: RegisteredJob,
    { handler }: PageHandler,
  ): Promise<unknown[]> {
    try {
      await this.context.enter(run, this.cronRun(run, job), (cronRun) =>
        handler(cronRun, { id: owned.page, data: owned.data ?? undefined }),
      );
      await run.end();
      return [];
    } catch (thrown) {
      await run.end().catch(() => {});
      return [thrown];
    }
  }

  private cronRun(run: InFlightRun, { definition }: RegisteredJob): CronRun {
    return new CronRun(cronRunFacts(run, definition, this.keys.secret));
  }
}

function inFlight(owned: OwnedPage, { definition }: RegisteredJob, { policies }: PageHandler): InFlightRun {
  const lease = { leaseMs: Infinity, leaseUntil: NEVER, leaseDeadline: Infinity, beside: false };
  return new InFlightRun(
    { ...owned, data: owned.runData ?? undefined, ...lease },
    { ...definition, budgetMs: null, timeoutMs: policies.timeoutMs },
  );
}
