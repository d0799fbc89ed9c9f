import { Injectable } from '@nestjs/common';
import { JobRegistry } from '../discovery/job.registry.js';
import { SchedulerLogger } from '../logging/scheduler-logger.js';
import { DatabaseTime } from '../runtime/database-time.js';
import { monotonicNow } from '../runtime/monotonic.js';
import { JobTimeline } from '../scheduling/job-timeline.js';
import { Timelines } from '../scheduling/timelines.js';
import { JobScheduleStore } from '../store/job-schedule.store.js';

/** Writes what the code declares to `job_schedule`, and starts each job's timeline where its occurrences are decided. */
@Injectable()
export class Registrar {
  constructor(
    private readonly registry: JobRegistry,
    private readonly store: JobScheduleStore,
    private readonly time: DatabaseTime,
    private readonly timelines: Timelines,
    private readonly logger: SchedulerLogger,
  ) {}

  async register(): Promise<void> {
    const jobs = this.registry.list().map(({ definition }) => definition);
    const sentAt = monotonicNow();
    const { databaseNow, schedules } = await this.store.register(jobs);
    this.time.observe(databaseNow, sentAt);
    const decided = new Map(schedules.map(({ name, decidedUntil }) => [name, decidedUntil.getTime()]));
    for (const job of jobs) this.timelines.set(new JobTimeline(job, decided.get(job.name)!));
    this.logger.listJobs(jobs, databaseNow);
  }
}
