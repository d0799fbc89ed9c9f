import { Injectable } from '@nestjs/common';
import { KnownJobs } from '../jobs/known-jobs.js';
import { LONGEST_TIMER_MS } from '../options/duration.js';
import type { JobDefinition } from '../options/job-definition.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { forEachSettled } from '../database/collections.js';
import { ReaperService } from '../runs/reaper.service.js';
import { isRunEnd, type SchedulerEvent } from '../observe/scheduler-event.js';
import { Duty } from '../observe/duty.js';
import { BackfillFeedStore, type Fed } from './backfill-feed.store.js';
import { BackfillStore } from './backfill.store.js';

/** How soon a backfill is looked at again that another replica was feeding. */
const LOOK_AGAIN_MS = 250;

/** How soon it is looked at again whether the schedule has decided about the newest occurrences of a range. */
const UNDECIDED_MS = 1_000;

/**
 * Feeds backfills: queues as many of their occurrences as may run at a time, and more when those have ended. Whoever
 * has room claims them, as everything that waits. While there is none it sleeps: `ScheduleFollower` sees when there is
 * one.
 */
@Injectable()
export class BackfillService extends Duty {
  private readonly fedJobs = new Set<string>();

  constructor(
    private readonly jobs: KnownJobs,
    private readonly store: BackfillStore,
    private readonly feeds: BackfillFeedStore,
    private readonly reaper: ReaperService,
    events: SchedulerEvents,
  ) {
    super(events, { name: 'backfill', maxSleepMs: LONGEST_TIMER_MS });
  }

  protected pass(): Promise<number> {
    return this.feed();
  }

  /** The end of a backfill's run makes room for the next, and for runs that waited for it. */
  override hear(event: SchedulerEvent): void {
    if (event.type === 'backfill.started') this.wake();
    if (!isRunEnd(event) || !this.fedJobs.has(event.jobName)) return;
    this.wake();
    this.reaper.wake();
  }

  /** One pass over the active backfills; one's trouble is not the others'. @returns milliseconds to the next */
  async feed(): Promise<number> {
    const active = await this.store.active(this.jobs.names());
    this.fedJobs.clear();
    for (const { jobName } of active) this.fedJobs.add(jobName);
    let sleep = Infinity;
    await forEachSettled(
      active,
      () => this.stopping,
      async ({ id, jobName }) => {
        const millis = await this.feedOne(id, this.jobs.get(jobName)!.definition);
        sleep = Math.min(sleep, millis);
      },
    );
    return sleep;
  }

  private async feedOne(id: string, job: JobDefinition): Promise<number> {
    const fed = await this.feeds.feed(id, job);
    if (!fed) return LOOK_AGAIN_MS;
    for (const fireTime of fed.queued)
      this.events.emit({ type: 'run.queued', jobName: job.name, fireTime, trigger: 'backfill' });
    if (fed.finished) this.events.emit({ type: 'backfill.finished', id, jobName: job.name, ...fed.finished });
    return sleepAfter(fed);
  }
}

function sleepAfter({ more, notDecidedYet }: Fed): number {
  if (more) return 0;
  return notDecidedYet ? UNDECIDED_MS : Infinity;
}
