import { Injectable } from '@nestjs/common';
import { UndecidedFireTimes } from '../catch-up/undecided.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { JobScheduleStore } from './job-schedule.store.js';
import type { StoredJob } from './stored-job.js';
import { JobCursor } from './job-cursor.js';
import { JobCursors } from './job-cursors.js';

/**
 * Brings the cursors back to what the database says. What was decided here since the last watermark may have no row
 * any more, on a server that was promoted or restarted: it is decided again, as what is late or missed.
 */
@Injectable()
export class Rewinding {
  constructor(
    private readonly cursors: JobCursors,
    private readonly schedules: JobScheduleStore,
    private readonly events: SchedulerEvents,
  ) {}

  /** @param jobs all jobs as they are stored */
  async rewind(jobs: readonly StoredJob[]): Promise<void> {
    const ahead = jobs.flatMap(({ name, decidedUntil }) => {
      const cursor = this.cursors.get(name);
      return cursor && cursor.decidedUntil > decidedUntil
        ? [{ name, cursor, from: decidedUntil, until: cursor.decidedUntil }]
        : [];
    });
    if (ahead.length === 0) return;
    const decided = await this.schedules.decided(ahead);
    for (const { name, cursor, from, until } of ahead) {
      const { job } = cursor;
      // Nobody here decides what is delivered from outside.
      if (!this.cursors.has(cursor) || (job.schedule.isExternal && job.fallbackMs === null)) continue;
      const vanished = new UndecidedFireTimes(job.schedule, from, until, decided.get(name)!).ends();
      if (!vanished) continue;
      this.cursors.set(new JobCursor(job, vanished.from - 1));
      this.events.emit({
        type: 'job.rewound',
        jobName: name,
        from: new Date(vanished.from),
        until: new Date(vanished.until),
      });
    }
  }
}
