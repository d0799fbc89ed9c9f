import { Injectable } from '@nestjs/common';
import { UndecidedFireTimes } from './undecided.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { JobScheduleStore } from './job-schedule.store.js';
import type { StoredJob } from './stored-job.js';
import { JobCursor, JobCursors } from './job-cursors.js';
import { Duty } from '../observe/duty.js';

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

const REMEMBER_EVERY_MS = 60_000;

/**
 * Remembers in the database how far each job is decided: now and then, all jobs that moved in one statement, nothing
 * when none has. A replica that starts compares fire times with rows from there on, not from the beginning of time.
 */
@Injectable()
export class WatermarkService extends Duty {
  override readonly goesOn = 'until the end';

  constructor(
    private readonly cursors: JobCursors,
    private readonly store: JobScheduleStore,
    events: SchedulerEvents,
  ) {
    super(events, { name: 'watermark', maxSleepMs: REMEMBER_EVERY_MS });
  }

  protected pass(): Promise<number> {
    return this.remember();
  }

  /** Remembers what the last runs decided: a replica that starts looks at a few more rows without it. */
  override async stop(): Promise<void> {
    await super.stop();
    await this.remember().catch(() => {});
  }

  /** One pass. @returns milliseconds to the next */
  async remember(): Promise<number> {
    const moved = this.cursors.moved.map((cursor) => ({
      cursor,
      job: cursor.job,
      decidedUntil: cursor.decidedUntil,
    }));
    if (moved.length > 0) await this.store.remember(moved);
    for (const { cursor, decidedUntil } of moved) this.cursors.remembered(cursor, decidedUntil);
    return REMEMBER_EVERY_MS;
  }
}
