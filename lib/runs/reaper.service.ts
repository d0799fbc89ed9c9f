import { Injectable } from '@nestjs/common';
import { monotonicNow } from '../database/clock.js';
import type { WakeUp } from '../database/tables.js';
import { KnownJobs } from '../jobs/known-jobs.js';
import { PollPace } from '../jobs/schedule-follower.service.js';
import { Duty } from '../observe/duty.js';
import { isRunEnd, type SchedulerEvent } from '../observe/scheduler-event.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import type { JobDefinition } from '../options/job-definition.js';
import { runId, type RunKey } from '../options/run.js';
import { type ReapedRun, type ReaperOutlook, ReapingRepository, type RefusedRun } from './reaping.repository.js';
import { RefusedData } from './refused-data.js';
import { WaitingRuns } from './waiting-runs.service.js';

const REAP_AT_ONCE = 100;

/**
 * How often runs are looked at that no live instance could start, in milliseconds; another may know their jobs, and
 * reap them.
 */
const STRAYS_EVERY_MS = 10_000;

/**
 * How soon a run is looked at again that could not be taken: its row is held, another run of its job is in the way, or
 * there is no room.
 */
const LOOK_AGAIN_MS = 500;

/**
 * Makes the runs of dead instances claimable, and starts runs that wait: orphaned, failed, released, caught up or
 * backfilled. Sleeps until the earliest lease ends or attempt is due.
 */
@Injectable()
export class ReaperService extends Duty {
  private readonly refused: RefusedData;
  private leftWaiting = false;
  /** By the monotonic clock. */
  private straysAt = 0;
  private tellOfRuns: () => void = () => {};

  constructor(
    private readonly jobs: KnownJobs,
    private readonly store: ReapingRepository,
    private readonly waiting: WaitingRuns,
    private readonly pace: PollPace,
    events: SchedulerEvents,
  ) {
    super(events, { name: 'reaper', maxSleepMs: pace.longestMs });
    this.refused = new RefusedData(events);
  }

  protected pass(): Promise<number> {
    return this.reap();
  }

  override hear(event: SchedulerEvent): void {
    switch (event.type) {
      case 'run.failed':
        this.wakeWithin(event.retryInMs);
        return this.runEnded();
      case 'run.queued':
      case 'run.missed':
        return this.wake();
      case 'job.unregistered':
        this.straysAt = 0;
        return;
      case 'job.scheduled':
      case 'job.rewound':
        return this.lookAtNextPoll();
      default:
        if (isRunEnd(event)) this.runEnded();
    }
  }

  override hearOthers(wakeUp: WakeUp): void {
    if (wakeUp === 'runs') this.wake();
  }

  /** A run of this instance has ended: there is room, or what was in the way is gone. */
  runEnded(): void {
    if (this.leftWaiting) this.wake();
  }

  /**
   * Another job may be due next, or nobody wakes this instance up any more: it may not sleep on for as long as it was
   * to.
   */
  override lookAtNextPoll(): void {
    this.wakeWithin(this.pace.usualMs);
  }

  /** @param tell called whenever a look has found runs under way, of whichever instance */
  whenRunsAreSeen(tell: () => void): void {
    this.tellOfRuns = tell;
  }

  /** One pass. @returns milliseconds until something is open */
  async reap(): Promise<number> {
    const resting = this.refused.resting('reap').runs;
    const outlook = await this.waiting.outlook(resting);
    if (outlook.nextExpiry) this.tellOfRuns();
    const untilExpiry = until(outlook.nextExpiry, outlook.now);
    const untilAttempt = until(outlook.nextAttempt, outlook.now);
    const expired = untilExpiry <= 0;
    if (expired) await this.reapExpired(resting);
    if (outlook.removedWait) await this.cancelRemoved();
    if (outlook.strays) await this.reapStrays(resting);
    this.leftWaiting = expired || untilAttempt <= 0;
    if (!this.leftWaiting) return Math.min(untilExpiry, untilAttempt, this.untilRested, this.untilNextLook(outlook));
    return (await this.waiting.start()) > 0 ? 0 : LOOK_AGAIN_MS;
  }

  /**
   * A lease that ends was given at least its length before: while runs go on or begin, a look within each shortest
   * lease sees every one in time, and what others started and may wait for its next attempt soon. What begins without
   * being due, because somebody asks for it, is told.
   */
  private untilNextLook({ nextExpiry, nextAttempt, strays }: ReaperOutlook): number {
    const soon = Math.min(this.pace.usualMs, ...this.known.map(({ leaseMs }) => leaseMs));
    if (nextExpiry || nextAttempt || strays) return soon;
    return Math.max(soon, Math.min(this.pace.idleMs, this.waiting.untilDue + soon));
  }

  private async reapExpired(resting: readonly RunKey[]): Promise<void> {
    this.tellReaped(await this.store.reap(this.known, REAP_AT_ONCE, this.tellRefused, resting));
  }

  /** Somebody's lease has run out, and the job is not known here: perhaps nobody knows it. */
  private async reapStrays(resting: readonly RunKey[]): Promise<void> {
    if (monotonicNow() < this.straysAt) return;
    this.straysAt = monotonicNow() + STRAYS_EVERY_MS;
    this.tellReaped(await this.store.orphanRunsOf(this.jobs.unregistered, this.tellRefused, resting));
  }

  private readonly tellRefused = (run: RefusedRun) => this.refused.tell('reap', runId(run), run, run.problem);

  /** Tells of runs whose leases were over, and of the end of those whose last attempt it was. */
  private tellReaped(runs: readonly ReapedRun[]): void {
    for (const run of runs) {
      const { jobName, fireTime, attempt, status, claimedBy, reason, overdueMs } = run;
      this.refused.accepted('reap', runId(run));
      this.events.emit({ type: 'run.orphaned', jobName, fireTime, attempt, claimedBy, reason, overdueMs });
      if (status === 'cancelled') this.events.emit({ type: 'run.cancelled', jobName, fireTime, attempt, reason });
      if (status !== 'dead') continue;
      const error = { name: 'LeaseExpired', message: `${reason.replace(/^t/, 'T')}; no attempt follows.`, stack: null };
      this.events.emit({ type: 'run.dead', jobName, fireTime, attempt, error });
    }
  }

  private async cancelRemoved(): Promise<void> {
    const cancelled = await this.store.cancelRemoved(
      REAP_AT_ONCE,
      (run) => this.refused.tell('cancel', runId(run), run, run.problem),
      this.refused.resting('cancel').runs,
    );
    for (const run of cancelled) {
      this.refused.accepted('cancel', runId(run));
      this.events.emit({ type: 'run.cancelled', ...run });
    }
  }

  /** Milliseconds until what was refused is to be tried again. */
  private get untilRested(): number {
    return Math.min(this.refused.resting('reap').forMs, this.refused.resting('cancel').forMs);
  }

  private get known(): JobDefinition[] {
    return this.jobs.runnable().map(({ definition }) => definition);
  }
}

function until(instant: Date | null, now: Date): number {
  return instant === null ? Infinity : instant.getTime() - now.getTime();
}
