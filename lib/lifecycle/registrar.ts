import { Injectable } from '@nestjs/common';
import { BackfillService } from '../catch-up/backfill-feed.service.js';
import { Cancellations } from '../runs/cancellations.js';
import { ClaimOrder } from '../runs/claim-order.js';
import { InFlightRuns } from '../runs/in-flight-runs.js';
import { JobExplorer } from '../jobs/job.explorer.js';
import { KnownJobs } from '../jobs/known-jobs.js';
import type { JobDefinition } from '../options/job-definition.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { PageQueues } from '../fan-out/page-queues.js';
import { SchedulerLogger } from '../observe/scheduler-logger.js';
import { DatabaseTime } from '../database/clock.js';
import { ScheduleFollower } from '../jobs/schedule-follower.service.js';
import { JobCursors } from '../jobs/job-cursors.js';

/** Gathers what the code declares, writes it to the database, and tells what will happen. */
@Injectable()
export class Registrar {
  constructor(
    private readonly explorer: JobExplorer,
    private readonly known: KnownJobs,
    private readonly pageQueues: PageQueues,
    private readonly follower: ScheduleFollower,
    private readonly cursors: JobCursors,
    private readonly events: SchedulerEvents,
    private readonly time: DatabaseTime,
    private readonly logger: SchedulerLogger,
  ) {}

  /** False while Nest is still making instances. */
  get mayGather(): boolean {
    return this.explorer.mayExplore;
  }

  /** Finds everything that is wrong with the code, before the database is touched. */
  async gather(): Promise<void> {
    this.known.declare(this.explorer.explore());
    this.pageQueues.require();
    await this.explorer.prepare();
  }

  async register(): Promise<void> {
    await this.follower.declare();
    this.logger.listJobs(this.scheduled(), this.now);
    this.events.of('job.scheduled').subscribe(({ jobName, updated }) => {
      const cursor = this.cursors.get(jobName);
      if (cursor && !updated) this.logger.warnOf(cursor.job, this.now);
    });
  }

  /** Without those that go on under a former name: what holds of them is told as `job.contested`. */
  private scheduled(): JobDefinition[] {
    return this.known.list().flatMap(({ definition }) => this.cursors.get(definition.name)?.job ?? []);
  }

  private get now(): Date {
    return new Date(this.time.now());
  }
}

/** Has the follower of schedules ask for what runs and backfills go by, and tell them what it found. */
@Injectable()
export class LooksBesides {
  constructor(
    follower: ScheduleFollower,
    cancellations: Cancellations,
    runs: InFlightRuns,
    order: ClaimOrder,
    backfills: BackfillService,
  ) {
    follower.looksBesidesFor({
      flags: () => cancellations.flags,
      isBusy: () => runs.size > 0,
      tell: (seen) => {
        cancellations.apply(seen);
        order.hear(seen.peers);
        if (seen.backfilling) backfills.wake();
      },
    });
  }
}
