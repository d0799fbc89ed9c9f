import { createHash } from 'node:crypto';
import { isMissed } from './missed.js';
import type { JobDefinition } from '../options/job-definition.js';
import type { Candidate } from '../runs/claim.service.js';

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
