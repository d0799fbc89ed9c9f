import { Inject, Injectable } from '@nestjs/common';
import { KnownJobs } from '../discovery/known-jobs.js';
import { INSTANCE_ID, SCHEDULER_OPTIONS } from '../distributed-scheduler.tokens.js';
import { loopListener } from '../events/loop-listener.js';
import { SchedulerEvents } from '../events/scheduler-events.js';
import type { InFlightRun } from '../execution/in-flight-runs.js';
import { PageEndings } from '../execution/pages/page-endings.service.js';
import { PageHandOver } from '../execution/pages/page-hand-over.js';
import { PagesInFlight } from '../execution/pages/pages-in-flight.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { Loop } from '../runtime/loop.js';
import { monotonicNow } from '../runtime/monotonic.js';
import { PageAttemptStore } from '../store/pages/page-attempt.store.js';
import { PageKeepingStore } from '../store/pages/page-keeping.store.js';

const AT_ONCE = 500;

/** How often pages are looked for that are lost, in milliseconds. */
const RECOVER_EVERY_MS = 60_000;

/** A page is queued again this long after its process was last seen, in milliseconds: the queue itself is usually faster. */
const GONE_FOR_MS = 120_000;

/** What a queue was given is given once more when nothing of its occurrence has moved for this long, in milliseconds. */
const STILL_FOR_MS = 600_000;

/**
 * Does for pages what nobody in particular does: hands over what is due and was not handed over (after a failure, a replay, or a
 * crash in between), ends occurrences that are cancelled, tells handlers here that their page is no longer theirs, and finds what
 * the queue has lost.
 */
@Injectable()
export class PageKeeper {
  private readonly loop: Loop;
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
    this.loop = new Loop(() => this.keep(), { maxSleepMs: options.pollIntervalMs, ...loopListener(events, 'page keeper') });
    events.of('run.fannedOut').subscribe(() => this.wake());
  }

  /** Without handlers of pages there is nothing to keep. */
  start(): void {
    if (this.known.pageJobs().length > 0) this.loop.start();
  }

  async stop(): Promise<void> {
    await this.loop.stop();
  }

  wake(): void {
    this.loop.wake();
  }

  wakeWithin(millis: number): void {
    this.loop.wakeWithin(millis);
  }

  /** One pass. @returns milliseconds until a page is due */
  async keep(): Promise<number> {
    const jobNames = this.known.pageJobs();
    await this.stopPages();
    if (monotonicNow() - this.recoveredAt >= RECOVER_EVERY_MS) {
      await this.store.recover(jobNames, { goneForMs: GONE_FOR_MS, stillForMs: STILL_FOR_MS });
      this.recoveredAt = monotonicNow();
    }
    const { toHandOver, nextInMs, toSettle } = await this.store.outlook(jobNames, AT_ONCE);
    for (const run of toSettle) {
      const ended = await this.attempts.settle(run);
      if (ended) this.endings.ended(ended);
    }
    await this.handOver.hand(toHandOver);
    return toHandOver.length === AT_ONCE ? 0 : (nextInMs ?? Infinity);
  }

  private async stopPages(): Promise<void> {
    const here = this.pages.list().filter((run) => !run.leaseLost && !run.ending);
    const inHand = here.map(({ owned }) => ({ ...owned, page: owned.page! }));
    for (const { jobName, fireTime, page, attempt, cancelled } of await this.store.stopped(inHand, this.instanceId)) {
      const isIt = ({ owned }: InFlightRun) => owned.jobName === jobName && owned.fireTime.getTime() === fireTime.getTime() && owned.page === page && owned.attempt === attempt;
      const run = here.find(isIt);
      if (!run) continue;
      if (cancelled === null) this.pages.lose(run, 'taken over');
      else run.cancel(cancelled);
    }
  }
}
