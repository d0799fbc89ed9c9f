import { Injectable } from '@nestjs/common';
import { DueQueue } from './due-queue.js';
import type { JobCursor } from './job-cursor.js';

/**
 * The cursors of all jobs of this instance, in the order they are due. They tell when they are moved; their new
 * places are found when somebody looks.
 */
@Injectable()
export class JobCursors {
  private readonly cursors = new Map<string, JobCursor>();
  private readonly queue = new DueQueue<JobCursor>();
  private readonly unplaced = new Set<JobCursor>();
  private readonly unremembered = new Set<JobCursor>();
  private catchUp: () => void = () => {};

  /** Puts a job's cursor in, in place of the one it had: that one may still be moved, and moves nothing here. */
  set(cursor: JobCursor): void {
    this.delete(cursor.job.name);
    this.cursors.set(cursor.job.name, cursor);
    this.unplaced.add(cursor);
    cursor.whenMoved(this.follow);
  }

  /** @returns false when there was none */
  delete(jobName: string): boolean {
    const cursor = this.cursors.get(jobName);
    if (!cursor) return false;
    this.cursors.delete(jobName);
    this.queue.delete(cursor);
    this.unplaced.delete(cursor);
    this.unremembered.delete(cursor);
    return true;
  }

  get(jobName: string): JobCursor | undefined {
    return this.cursors.get(jobName);
  }

  /** True until the cursor is replaced or taken out. */
  has(cursor: JobCursor): boolean {
    return this.cursors.get(cursor.job.name) === cursor;
  }

  /**
   * Those with something to start now, on time or merely late, and those with something that should have run long ago;
   * the earliest first.
   */
  due(now: number): { live: JobCursor[]; missed: JobCursor[] } {
    const live: JobCursor[] = [];
    const missed: JobCursor[] = [];
    for (const cursor of this.placed.due(now)) (cursor.isMissed(now) ? missed : live).push(cursor);
    return { live, missed };
  }

  /** @param tell called by {@link tellMissed}, which a tick calls that has found something missed */
  whenMissed(tell: () => void): void {
    this.catchUp = tell;
  }

  tellMissed(): void {
    this.catchUp();
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
  get moved(): JobCursor[] {
    return [...this.unremembered];
  }

  /** The database knows that the cursor is decided up to here; it may have moved on meanwhile. Milliseconds. */
  remembered(cursor: JobCursor, decidedUntil: number): void {
    if (cursor.decidedUntil === decidedUntil) this.unremembered.delete(cursor);
  }

  /** One for all. */
  private readonly follow = (cursor: JobCursor): void => {
    if (!this.has(cursor)) return;
    this.unplaced.add(cursor);
    this.unremembered.add(cursor);
  };

  /** Finding a place takes the next fire time, and that is computed here. */
  private get placed(): DueQueue<JobCursor> {
    for (const cursor of this.unplaced) this.queue.set(cursor, cursor.dueAt ?? Infinity);
    this.unplaced.clear();
    return this.queue;
  }
}
