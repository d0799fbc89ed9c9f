import { Injectable } from '@nestjs/common';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { Duty } from '../observe/duty.js';
import { JobScheduleStore } from './job-schedule.store.js';
import { JobCursors } from './job-cursors.js';

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
