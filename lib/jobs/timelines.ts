import { Injectable } from '@nestjs/common';
import { DueQueue } from './due-queue.js';
import type { JobTimeline } from './job-timeline.js';

/**
 * The timelines of all jobs of this instance, in the order they are due. They tell when they are moved; their new
 * places are found when somebody looks.
 */
@Injectable()
export class Timelines {
  private readonly timelines = new Map<string, JobTimeline>();
  private readonly queue = new DueQueue<JobTimeline>();
  private readonly unplaced = new Set<JobTimeline>();
  private readonly unremembered = new Set<JobTimeline>();

  /** Puts a job's timeline in, in place of the one it had: that one may still be moved, and moves nothing here. */
  set(timeline: JobTimeline): void {
    this.delete(timeline.job.name);
    this.timelines.set(timeline.job.name, timeline);
    this.unplaced.add(timeline);
    timeline.whenMoved(this.follow);
  }

  /** @returns false when there was none */
  delete(jobName: string): boolean {
    const timeline = this.timelines.get(jobName);
    if (!timeline) return false;
    this.timelines.delete(jobName);
    this.queue.delete(timeline);
    this.unplaced.delete(timeline);
    this.unremembered.delete(timeline);
    return true;
  }

  get(jobName: string): JobTimeline | undefined {
    return this.timelines.get(jobName);
  }

  /** True until the timeline is replaced or taken out. */
  has(timeline: JobTimeline): boolean {
    return this.timelines.get(timeline.job.name) === timeline;
  }

  /**
   * Those with something to start now, on time or merely late, and those with something that should have run long ago;
   * the earliest first.
   */
  due(now: number): { live: JobTimeline[]; missed: JobTimeline[] } {
    const live: JobTimeline[] = [];
    const missed: JobTimeline[] = [];
    for (const timeline of this.placed.due(now)) (timeline.isMissed(now) ? missed : live).push(timeline);
    return { live, missed };
  }

  /** When the next occurrence of any job may start, milliseconds; Infinity when there is none. */
  get nextDueAt(): number {
    return this.nextDueAfter(-Infinity);
  }

  /** The same without the jobs that have something due at `now`. */
  nextDueAfter(now: number): number {
    return this.placed.nextAfter(now);
  }

  /** Those that moved since they were {@link remembered}. */
  get moved(): JobTimeline[] {
    return [...this.unremembered];
  }

  /** The database knows that the timeline is decided up to here; it may have moved on meanwhile. Milliseconds. */
  remembered(timeline: JobTimeline, decidedUntil: number): void {
    if (timeline.decidedUntil === decidedUntil) this.unremembered.delete(timeline);
  }

  /** One for all. */
  private readonly follow = (timeline: JobTimeline): void => {
    if (!this.has(timeline)) return;
    this.unplaced.add(timeline);
    this.unremembered.add(timeline);
  };

  /** Finding a place takes the next fire time, and that is computed here. */
  private get placed(): DueQueue<JobTimeline> {
    for (const timeline of this.unplaced) this.queue.set(timeline, timeline.dueAt ?? Infinity);
    this.unplaced.clear();
    return this.queue;
  }
}
