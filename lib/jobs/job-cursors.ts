import { LEAST_LATE_MS, MOST_LATE_MS } from '../options/defaults.js';
import type { JobDefinition } from '../options/job-definition.js';
import { createHash } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import { DueQueue } from './due-queue.js';

/** What says when an occurrence of a job is missed. */
export type LatenessRules = Pick<
  JobDefinition,
  'schedule' | 'lateAfterMs' | 'catchUpWindowMs' | 'jitterMs' | 'fallbackMs'
>;

/** How long any occurrence of the job is merely late at most, in milliseconds. */
export function mostLateMs({
  lateAfterMs,
  catchUpWindowMs,
}: Pick<LatenessRules, 'lateAfterMs' | 'catchUpWindowMs'>): number {
  return lateAfterMs ?? Math.min(MOST_LATE_MS, catchUpWindowMs);
}

/**
 * True when an occurrence that is due is not merely late but missed. Unless `lateAfter` says otherwise, it is as soon as
 * the following one is due; but not within the first five seconds, and always after two minutes.
 * @param following the job's next fire time, milliseconds; asked for only when it matters
 */
export function isMissed(
  job: LatenessRules,
  fireTime: number,
  now: number,
  following = (): number | null => job.schedule.nextAfter(fireTime),
): boolean {
  const lateMs = startsDueUntil(job, now) - fireTime;
  if (lateMs >= mostLateMs(job)) return true;
  return job.lateAfterMs === null && lateMs >= LEAST_LATE_MS && lateMs >= (following() ?? Infinity) - fireTime;
}

/** Fire times up to here are missed, as {@link isMissed} says of each; later ones are late, or not due. Milliseconds. */
export function missedUntil(now: number, job: LatenessRules): number {
  const dueUntil = startsDueUntil(job, now);
  const certainly = dueUntil - mostLateMs(job);
  if (job.lateAfterMs !== null) return certainly;
  // Of all that are due only the newest has its following one still to come.
  const newest = job.schedule.previousBefore(Math.floor(dueUntil) + 1) ?? Infinity;
  return Math.max(certainly, Math.min(dueUntil - LEAST_LATE_MS, newest - 1));
}

/** The starts of fire times up to here are due, whatever the job's share of its jitter. Milliseconds. */
function startsDueUntil({ jitterMs, fallbackMs }: LatenessRules, now: number): number {
  return now - (fallbackMs ?? jitterMs);
}

/** An occurrence that is due, or will be at `startsAt`. Milliseconds. */
export interface Candidate {
  readonly job: JobDefinition;
  readonly fireTime: number;
  readonly startsAt: number;
  /** Asked for by name, also before the watermark. @default false */
  readonly byHand?: boolean;
}

/** How many occurrences of one job are claimed in one batch at most. */
const MOST_AT_ONCE = 60;

/** Fire times are whole seconds. */
const SHORTEST_GAP_MS = 1_000;

/**
 * How far this instance knows one job to be decided, and what comes next. The next fire time always follows from the
 * last decided one, never from "now": a timer that wakes early finds nothing due and loses nothing. Each fire time is
 * computed once, and not before somebody asks for it: what is claimed has started by then.
 */
export class JobCursor {
  /** Undecided, oldest first, as far as they were needed; null past the last. */
  private fireTimes: (number | null)[] = [];
  /** Of the first; undefined until somebody asks. */
  private startsAt: number | null | undefined;
  private tellMoved: ((cursor: JobCursor) => void) | null = null;

  /** @param decided every due occurrence up to here has a row, milliseconds */
  constructor(
    readonly job: JobDefinition,
    private decided: number,
  ) {
    this.startsAt = this.candidate(0)?.startsAt ?? null;
  }

  /** Every due occurrence up to here has a row. Milliseconds. */
  get decidedUntil(): number {
    return this.decided;
  }

  /** Of the next undecided occurrence, milliseconds; null when there is none. */
  get nextFireTime(): number | null {
    return this.fireTime(0);
  }

  /** When the next undecided occurrence may start, milliseconds; null when there is none. */
  get dueAt(): number | null {
    if (this.startsAt === undefined) this.startsAt = this.candidate(0)?.startsAt ?? null;
    return this.startsAt;
  }

  isDue(now: number): boolean {
    return this.dueAt !== null && this.dueAt <= now;
  }

  /** True when the next undecided occurrence is not merely late but missed. */
  isMissed(now: number): boolean {
    const next = this.nextFireTime;
    return next !== null && isMissed(this.job, next, now, () => this.fireTime(1));
  }

  /** What is due and undecided, oldest first. */
  due(now: number): Candidate[] {
    const due: Candidate[] = [];
    for (
      let next = this.isDue(now) ? this.candidate(0) : null;
      next && next.startsAt <= now && due.length < MOST_AT_ONCE;
    ) {
      due.push(next);
      // Date arithmetic before the claim delays the start: where nothing else can be due, it is not done.
      next = next.fireTime + SHORTEST_GAP_MS <= now ? this.candidate(due.length) : null;
    }
    return due;
  }

  /** Takes it that everything up to here has a row; never goes back. */
  decideUntil(fireTime: number): void {
    if (fireTime <= this.decided) return;
    this.decided = fireTime;
    while (this.fireTimes.length > 0 && (this.fireTimes[0] ?? Infinity) <= fireTime) {
      this.fireTimes.shift();
      this.startsAt = undefined;
    }
    this.tellMoved?.(this);
  }

  /** Whoever keeps the cursor in its place is told of every move. */
  whenMoved(tell: (cursor: JobCursor) => void): void {
    this.tellMoved = tell;
  }

  private candidate(index: number): Candidate | null {
    const fireTime = this.fireTime(index);
    if (fireTime === null) return null;
    return { job: this.job, fireTime, startsAt: fireTime + this.delay(fireTime, index) };
  }

  private delay(fireTime: number, index: number): number {
    const { name, jitterMs, fallbackMs } = this.job;
    if (fallbackMs !== null) return fallbackMs;
    if (jitterMs === 0) return 0;
    const following = this.fireTime(index + 1);
    return jitterDelay(name, jitterMs, following === null ? null : following - fireTime);
  }

  private fireTime(index: number): number | null {
    while (this.fireTimes.length <= index) {
      const last = this.fireTimes.at(-1) ?? (this.fireTimes.length === 0 ? this.decided : null);
      if (last === null) return null;
      // Not pushed: room for sixteen more, which hardly a job ever needs, is what most of a cursor would take.
      this.fireTimes = this.fireTimes.concat(this.nextAfter(last));
    }
    return this.fireTimes[index] ?? null;
  }

  /** Of a job whose occurrences are delivered nothing is due here, unless it falls back on its schedule. */
  private nextAfter(fireTime: number): number | null {
    const { schedule, fallbackMs } = this.job;
    return schedule.isExternal && fallbackMs === null ? null : schedule.nextAfter(fireTime);
  }
}

/**
 * The delay of a job's starts, in milliseconds: a stable share of `jitterMs`, the same on every replica and every day.
 * @param gapMs time to the job's next fire time, which the delay never reaches; null when there is none
 */
export function jitterDelay(jobName: string, jitterMs: number, gapMs: number | null): number {
  if (jitterMs === 0) return 0;
  const share = createHash('sha256').update(jobName).digest().readUInt32BE(0) / 2 ** 32;
  return Math.floor(share * Math.min(jitterMs, gapMs ?? jitterMs));
}

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
