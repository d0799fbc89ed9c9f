import { missedUntil } from '../domain/catch-up.js';
import { jitterDelay } from '../domain/jitter.js';
import type { JobDefinition } from '../domain/job-definition.js';
import type { Candidate } from '../execution/claim.service.js';

/** How many occurrences of one job are claimed in one batch at most. */
const MOST_AT_ONCE = 60;

/** Fire times are whole seconds. */
const SHORTEST_GAP_MS = 1_000;

/**
 * How far this instance knows one job to be decided, and what comes next. The next fire time always follows from the
 * last decided one, never from "now": a timer that wakes early finds nothing due and loses nothing.
 */
export class JobTimeline {
  private next: Candidate | null;

  /** @param decided every due occurrence up to here has a row, milliseconds */
  constructor(
    readonly job: JobDefinition,
    private decided: number,
  ) {
    this.next = this.candidateAfter(decided);
  }

  /** Every due occurrence up to here has a row. Milliseconds. */
  get decidedUntil(): number {
    return this.decided;
  }

  /** When the next undecided occurrence may start, milliseconds; null when there is none. */
  get dueAt(): number | null {
    return this.next?.startsAt ?? null;
  }

  isDue(now: number): boolean {
    return this.next !== null && this.next.startsAt <= now;
  }

  /** True when the next undecided occurrence is not merely late but missed. */
  isMissed(now: number): boolean {
    return this.next !== null && this.next.fireTime <= missedUntil(now, this.job);
  }

  /** What is due and undecided, oldest first. */
  due(now: number): Candidate[] {
    const due: Candidate[] = [];
    for (let next = this.next; next && next.startsAt <= now && due.length < MOST_AT_ONCE; ) {
      due.push(next);
      // Date arithmetic before the claim delays the start: where nothing else can be due, it is not done.
      next = next.fireTime + SHORTEST_GAP_MS <= now ? this.candidateAfter(next.fireTime) : null;
    }
    return due;
  }

  /** Takes it that everything up to here has a row; never goes back. */
  decideUntil(fireTime: number): void {
    if (fireTime <= this.decided) return;
    this.decided = fireTime;
    if (this.next && this.next.fireTime <= fireTime) this.next = this.candidateAfter(fireTime);
  }

  private candidateAfter(instant: number): Candidate | null {
    const { schedule, name, jitterMs } = this.job;
    const fireTime = schedule.nextAfter(instant);
    if (fireTime === null) return null;
    const following = jitterMs === 0 ? null : schedule.nextAfter(fireTime);
    const delay = jitterDelay(name, jitterMs, following === null ? null : following - fireTime);
    return { job: this.job, fireTime, startsAt: fireTime + delay };
  }
}
