import { Injectable } from '@nestjs/common';
import type { Subscription } from 'rxjs';
import type { SchedulerEvent } from '../observe/scheduler-event.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import type { WakeUp } from '../runs/heartbeat/heartbeat.messages.js';
import { GivenUpRuns } from '../runs/given-up-runs.js';
import { HeartbeatService } from '../runs/heartbeat/heartbeat.service.js';
import { WakeUps } from '../runs/heartbeat/wake-ups.js';
import { CancelWatch } from '../runs/cancel-watch.service.js';
import { ClockWatchService } from '../maintenance/clock-watch.service.js';
import { CutOffCalls } from '../maintenance/cut-off-calls.service.js';
import { FastFailoverService } from '../runs/fast-failover.service.js';
import { OverdueService } from '../maintenance/overdue.service.js';
import { PageKeeper } from '../fan-out/page-keeper.service.js';
import { PartitionsService } from '../maintenance/partitions.service.js';
import { PruningService } from '../maintenance/pruning.service.js';
import { ReaperService } from '../runs/reaper.service.js';
import { RetentionService } from '../maintenance/retention.service.js';
import { BackfillService } from '../catch-up/backfill.service.js';
import { CatchUpService } from '../catch-up/catch-up.service.js';
import { ScheduleFollower } from '../jobs/schedule-follower.service.js';
import { TickerService } from '../runs/ticker.service.js';
import { WatermarkService } from '../jobs/watermark.service.js';
import { PageWorkers } from '../fan-out/page-workers.js';
import { within } from '../database/collections.js';

/** Not worth a long wait: a replica that starts looks at a few more rows without it. */
const REMEMBER_WITHIN_MS = 1_000;

/** For an answer that would tell nobody any more. */
const LOOK_WITHIN_MS = 500;

/** Everything that goes on periodically, started and stopped in the right order. */
@Injectable()
export class Duties {
  private ownEvents: Subscription | null = null;
  private othersWakeUps: Subscription | null = null;

  constructor(
    private readonly ticker: TickerService,
    private readonly catchUps: CatchUpService,
    private readonly backfills: BackfillService,
    private readonly reaper: ReaperService,
    private readonly follower: ScheduleFollower,
    private readonly watermarks: WatermarkService,
    private readonly partitions: PartitionsService,
    private readonly clockWatch: ClockWatchService,
    private readonly overdue: OverdueService,
    private readonly cancelWatch: CancelWatch,
    private readonly pruning: PruningService,
    private readonly retention: RetentionService,
    private readonly cutOffCalls: CutOffCalls,
    private readonly heartbeat: HeartbeatService,
    private readonly pageKeeper: PageKeeper,
    private readonly pageWorkers: PageWorkers,
    private readonly events: SchedulerEvents,
    private readonly wakeUps: WakeUps,
    private readonly fastFailover: FastFailoverService,
    private readonly givenUp: GivenUpRuns,
  ) {}

  /** The partitions are there before the first claim, and so is the heartbeat. What fails may be tried again. */
  async makeReady(): Promise<void> {
    await this.partitions.makeReady();
    await this.heartbeat.start();
  }

  /** Once it is ready. */
  start(): void {
    this.ownEvents = this.events.subscribe((event) => this.wake(event));
    this.othersWakeUps = this.wakeUps.subscribe(
      (wakeUps) => wakeUps.forEach((wakeUp) => this.hear(wakeUp)),
      () => this.lookAtNextPoll(),
    );
    const duties = [
      this.partitions,
      this.follower,
      this.watermarks,
      this.clockWatch,
      this.overdue,
      this.pruning,
      this.retention,
      this.cutOffCalls,
      this.reaper,
      this.fastFailover,
      this.givenUp,
      this.catchUps,
      this.backfills,
      this.pageKeeper,
      this.pageWorkers,
      this.ticker,
    ];
    for (const duty of duties) duty.start();
  }

  /** Claims nothing more, whatever is still running; that is still told to stop. */
  async stopClaiming(): Promise<void> {
    this.ownEvents?.unsubscribe();
    this.cancelWatch.start();
    const duties = [
      this.ticker,
      this.catchUps,
      this.backfills,
      this.reaper,
      this.fastFailover,
      this.givenUp,
      this.partitions,
      this.follower,
      this.clockWatch,
      this.overdue,
      this.pruning,
      this.retention,
      this.cutOffCalls,
      this.pageKeeper,
      this.pageWorkers,
    ];
    await Promise.all(duties.map((duty) => duty.stop()));
  }

  /** The heartbeat ends last: until then, what still runs keeps its lease. */
  async stop(): Promise<void> {
    await this.pageWorkers.close();
    await Promise.all([
      within(LOOK_WITHIN_MS, this.cancelWatch.stop()),
      within(REMEMBER_WITHIN_MS, this.rememberWatermarks()),
    ]);
    this.othersWakeUps?.unsubscribe();
    await this.heartbeat.stop();
  }

  private async rememberWatermarks(): Promise<void> {
    await this.watermarks.stop();
    await this.watermarks.remember().catch(() => {});
  }

  /** What another instance has made due. */
  private hear(wakeUp: WakeUp): void {
    if (wakeUp === 'runs') this.reaper.wake();
    else this.follower.wake();
    // Of the two, one runs.
    if (wakeUp !== 'runs') this.cancelWatch.wake();
  }

  private lookAtNextPoll(): void {
    this.reaper.lookAtNextPoll();
    this.follower.lookAtNextPoll();
  }

  /** What an event of this instance makes due. */
  private wake(event: SchedulerEvent): void {
    this.cutOffCalls.hear(event);
    switch (event.type) {
      case 'run.claimed':
        return this.follower.lookAtNextPoll();
      case 'run.failed':
        this.reaper.wakeWithin(event.retryInMs);
        this.reaper.runEnded();
        return this.ticker.runEnded();
      case 'lease.lost':
        if (event.cause === 'cut off') this.givenUp.add(event);
        return;
      case 'page.failed':
        return this.pageKeeper.wakeWithin(event.retryInMs);
      case 'run.queued':
        return this.reaper.wake();
      case 'backfill.started':
        return this.backfills.wake();
      case 'run.missed':
        this.reaper.wake();
        return this.ticker.runEnded();
      case 'job.scheduled':
      case 'job.rewound':
        this.reaper.lookAtNextPoll();
        return this.ticker.wake();
      case 'run.completed':
      case 'run.woundUp':
      case 'run.dead':
      case 'run.cancelled':
      case 'run.abandoned':
      case 'run.refused':
        if (this.backfills.runEnded(event.jobName)) this.reaper.wake();
        this.reaper.runEnded();
        return this.ticker.runEnded();
    }
  }
}
