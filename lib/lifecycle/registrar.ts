import { Injectable } from '@nestjs/common';
import { JobExplorer } from '../discovery/job.explorer.js';
import { KnownJobs } from '../discovery/known-jobs.js';
import { SchedulerLogger } from '../logging/scheduler-logger.js';
import { DatabaseTime } from '../runtime/database-time.js';
import { ScheduleFollower } from '../scheduling/schedule-follower.service.js';

/** Gathers what the code declares, writes it to the database, and tells what will happen. */
@Injectable()
export class Registrar {
  constructor(
    private readonly explorer: JobExplorer,
    private readonly known: KnownJobs,
    private readonly follower: ScheduleFollower,
    private readonly time: DatabaseTime,
    private readonly logger: SchedulerLogger,
  ) {}

  /** Finds everything that is wrong with the code, before the database is touched. */
  gather(): void {
    this.known.declare(this.explorer.explore());
  }

  async register(): Promise<void> {
    await this.follower.declare();
    this.logger.listJobs(this.known.list().map(({ definition }) => definition), new Date(this.time.now()));
  }
}
