import { Inject, Injectable, type Provider } from '@nestjs/common';
import type { Subscription } from 'rxjs';
import { BackfillService } from '../catch-up/backfill-feed.service.js';
import { CatchUpService } from '../catch-up/catch-up.service.js';
import { within } from '../database/collections.js';
import { PageKeeper } from '../fan-out/page-keeper.service.js';
import { PageWorkers } from '../fan-out/page-queues.js';
import { ScheduleFollower } from '../jobs/schedule-follower.service.js';
import { WatermarkService } from '../jobs/watermark.service.js';
import { ClockWatchService, OverdueService } from '../maintenance/watches.service.js';
import { CutOffCalls, PruningService } from '../maintenance/pruning.service.js';
import { PartitionsService, RetentionService } from '../maintenance/partitions.service.js';
import type { Duty } from '../observe/duty.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { UnconfirmedClaims } from '../runs/claim.service.js';
import { CancelWatch } from '../runs/cancellations.js';
import { FastFailoverService, GivenUpRuns } from '../runs/fast-failover.service.js';
import { HeartbeatService } from '../runs/heartbeat/heartbeat.service.js';
import { WakeUps } from '../observe/wake-ups.js';
import { ReaperService } from '../runs/reaper.service.js';
import { TickerService } from '../runs/ticker.service.js';

/** All periodic work of an instance, in the order in which it starts: the ticker claims only when the rest is there. */
export const DUTY_CLASSES = [
  PartitionsService,
  ScheduleFollower,
  WatermarkService,
  ClockWatchService,
  OverdueService,
  PruningService,
  RetentionService,
  CutOffCalls,
  ReaperService,
  FastFailoverService,
  GivenUpRuns,
  UnconfirmedClaims,
  CatchUpService,
  BackfillService,
  PageKeeper,
  PageWorkers,
  CancelWatch,
  TickerService,
];

const DUTIES = Symbol('duties');

export const DUTIES_PROVIDER: Provider = {
  provide: DUTIES,
  inject: DUTY_CLASSES,
  useFactory: (...duties: Duty[]) => duties,
};

/** How long the last passes get in milliseconds: others find out without them. */
const LAST_PASS_WITHIN_MS = 1_000;

/** Starts, wakes and stops the duties. */
@Injectable()
export class Duties {
  private ownEvents: Subscription | null = null;
  private othersWakeUps: Subscription | null = null;

  constructor(
    @Inject(DUTIES) private readonly duties: readonly Duty[],
    private readonly heartbeat: HeartbeatService,
    private readonly events: SchedulerEvents,
    private readonly wakeUps: WakeUps,
  ) {}

  /** What the first claim needs: partitions and the heartbeat. What fails may be tried again. */
  async makeReady(): Promise<void> {
    for (const duty of this.duties) await duty.makeReady();
    await this.heartbeat.start();
  }

  /** Once it is ready. */
  start(): void {
    this.ownEvents = this.events.subscribe((event) => this.duties.forEach((duty) => duty.hear(event)));
    this.othersWakeUps = this.wakeUps.subscribe(
      (wakeUps) => wakeUps.forEach((wakeUp) => this.duties.forEach((duty) => duty.hearOthers(wakeUp))),
      () => this.duties.forEach((duty) => duty.lookAtNextPoll()),
    );
    for (const duty of this.duties) if (duty.goesOn !== 'while draining') duty.start();
  }

  /** Claims nothing more, whatever is still running; that is still told to stop. */
  async stopClaiming(): Promise<void> {
    this.ownEvents?.unsubscribe();
    for (const duty of this.duties) if (duty.goesOn === 'while draining') duty.start();
    await Promise.all(this.duties.filter(({ goesOn }) => goesOn === 'while claiming').map((duty) => duty.stop()));
  }

  /** The heartbeat ends last: until then, what still runs keeps its lease. */
  async stop(): Promise<void> {
    await Promise.allSettled(this.duties.map((duty) => duty.end()));
    const left = this.duties.filter(({ goesOn }) => goesOn !== 'while claiming');
    await Promise.all(left.map((duty) => within(LAST_PASS_WITHIN_MS, duty.stop())));
    this.othersWakeUps?.unsubscribe();
    await this.heartbeat.stop();
  }
}
