import { Inject, Injectable } from '@nestjs/common';
import { KnownJobs } from '../jobs/known-jobs.js';
import { INSTANCE_ID, SCHEDULER_OPTIONS } from '../options/tokens.js';
import {
  LOOK_EVERY_MS,
  firstGone,
  goneForGood,
  nextGone,
  stillGone,
  type GoneRun,
  type GoneSince,
} from './fast-failover.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { runId } from '../options/run.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { DatabaseTime } from '../database/clock.js';
import { Duty } from '../observe/duty.js';
import { monotonicNow } from '../database/clock.js';
import { JobCursors } from '../jobs/job-cursors.js';
import { ReapingRepository } from './reaping.repository.js';
import { RefusedData } from './refused-data.js';
import { ReaperService } from './reaper.service.js';

/** Whether something has come due is looked at here, without the database, at least this often. */
const LONGEST_SLEEP_MS = 1_000;

const MAX_RETRY_MS = 1_000;

/** An occurrence that is due may be claimed a little later: whoever has no room leaves it to others. */
const ATTENTIVE_FOR_MS = 1_000;

/**
 * Takes over from instances whose liveness lock is gone, before their leases end. Looks only while runs of others are under
 * way, or may just have begun: what has come due, and what the reaper has seen, says so.
 */
@Injectable()
export class FastFailoverService extends Duty {
  private readonly refused: RefusedData;
  private since: GoneSince = new Map();
  /** By the monotonic clock. */
  private attentiveUntil = -Infinity;
  /** By the database's clock, as all fire times. */
  private nextDueAt = Infinity;

  constructor(
    @Inject(SCHEDULER_OPTIONS) private readonly options: ResolvedSchedulerOptions,
    @Inject(INSTANCE_ID) private readonly instanceId: string,
    private readonly store: ReapingRepository,
    private readonly reaper: ReaperService,
    private readonly known: KnownJobs,
    private readonly cursors: JobCursors,
    private readonly time: DatabaseTime,
    events: SchedulerEvents,
  ) {
    super(events, { name: 'fast failover', maxSleepMs: LONGEST_SLEEP_MS, maxRetryMs: MAX_RETRY_MS });
    this.refused = new RefusedData(events);
  }

  protected pass(): Promise<number> {
    return this.look();
  }

  override start(): void {
    if (!this.options.fastFailover) return;
    this.reaper.whenRunsAreSeen(() => this.attend());
    super.start();
  }

  /** Runs of others may be under way. */
  attend(): void {
    this.attentiveUntil = monotonicNow() + ATTENTIVE_FOR_MS;
    this.wakeWithin(LOOK_EVERY_MS);
  }

  /** One look, while there is something to see. @returns milliseconds to the next */
  async look(): Promise<number> {
    if (this.nextDueAt <= this.time.now()) this.attentiveUntil = monotonicNow() + ATTENTIVE_FOR_MS;
    this.nextDueAt = this.cursors.nextDueAt;
    const untilDue = Math.max(0, this.nextDueAt - this.time.now()) + LOOK_EVERY_MS;
    if (this.attentiveUntil < monotonicNow()) return untilDue;
    const others = await this.store.ownersGone(this.instanceId);
    // Whoever does not know a job leaves its runs alone.
    const gone = others.gone.filter(({ jobName }) => this.known.get(jobName));
    const now = monotonicNow();
    if (others.run) this.attentiveUntil = now + ATTENTIVE_FOR_MS;
    this.since = stillGone(this.since, gone, now);
    const lost = goneForGood(gone, this.since, now);
    if (lost.length > 0) await this.takeOver(lost);
    return Math.min(LOOK_EVERY_MS, nextGone(gone, this.since, now) - now);
  }

  private async takeOver(lost: readonly GoneRun[]): Promise<void> {
    const taken = await this.refused.takeApart('take over', lost, runId, (part) => this.store.takeOver(part));
    if (taken.length === 0) return;
    this.reaper.wake();
    const goneMs = monotonicNow() - firstGone(lost, this.since);
    for (const instanceId of new Set(taken.map((run) => run.instanceId))) {
      const runs = taken.filter((run) => run.instanceId === instanceId).length;
      this.events.emit({ type: 'instance.gone', instanceId, runs, goneMs });
    }
  }
}
