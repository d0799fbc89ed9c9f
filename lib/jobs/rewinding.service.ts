import { Injectable } from '@nestjs/common';
import { UndecidedFireTimes } from '../catch-up/undecided.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { JobScheduleStore } from './job-schedule.store.js';
import type { StoredJob } from './stored-job.js';
import { JobTimeline } from './job-timeline.js';
import { Timelines } from './timelines.js';

/**
 * Brings the timelines back to what the database says. What was decided here since the last watermark may have no row
 * any more, on a server that was promoted or restarted: it is decided again, as what is late or missed.
 */
@Injectable()
export class Rewinding {
  constructor(
    private readonly timelines: Timelines,
    private readonly schedules: JobScheduleStore,
    private readonly events: SchedulerEvents,
  ) {}

  /** @param jobs all jobs as they are stored */
  async rewind(jobs: readonly StoredJob[]): Promise<void> {
    const ahead = jobs.flatMap(({ name, decidedUntil }) => {
      const timeline = this.timelines.get(name);
      return timeline && timeline.decidedUntil > decidedUntil
        ? [{ name, timeline, from: decidedUntil, until: timeline.decidedUntil }]
        : [];
    });
    if (ahead.length === 0) return;
    const decided = await this.schedules.decided(ahead);
    for (const { name, timeline, from, until } of ahead) {
      const { job } = timeline;
      // Nobody here decides what is delivered from outside.
      if (!this.timelines.has(timeline) || (job.schedule.isExternal && job.fallbackMs === null)) continue;
      const vanished = new UndecidedFireTimes(job.schedule, from, until, decided.get(name)!).ends();
      if (!vanished) continue;
      this.timelines.set(new JobTimeline(job, vanished.from - 1));
      this.events.emit({
        type: 'job.rewound',
        jobName: name,
        from: new Date(vanished.from),
        until: new Date(vanished.until),
      });
    }
  }
}
