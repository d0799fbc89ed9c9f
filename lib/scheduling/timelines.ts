import { Injectable } from '@nestjs/common';
import type { JobTimeline } from './job-timeline.js';

/** The timelines of all jobs of this instance. */
@Injectable()
export class Timelines {
  private readonly timelines = new Map<string, JobTimeline>();

  set(timeline: JobTimeline): void {
    this.timelines.set(timeline.job.name, timeline);
  }

  /** @returns false when there was none */
  delete(jobName: string): boolean {
    return this.timelines.delete(jobName);
  }

  get(jobName: string): JobTimeline | undefined {
    return this.timelines.get(jobName);
  }

  list(): JobTimeline[] {
    return [...this.timelines.values()];
  }

  /** Those with something to start now, on time or merely late. */
  live(now: number): JobTimeline[] {
    return this.list().filter((timeline) => timeline.isDue(now) && !timeline.isMissed(now));
  }

  /** Those with something that should have run long ago. */
  missed(now: number): JobTimeline[] {
    return this.list().filter((timeline) => timeline.isDue(now) && timeline.isMissed(now));
  }

  /** When the next occurrence of any job may start, milliseconds; Infinity when there is none. */
  get nextDueAt(): number {
    return this.list().reduce((earliest, { dueAt }) => Math.min(earliest, dueAt ?? Infinity), Infinity);
  }
}
