import { Injectable } from '@nestjs/common';
import { type JobCursor, JobCursors } from '../jobs/job-cursors.js';
import type { JobDefinition } from '../options/job-definition.js';
import { ClaimOrder } from './claim-order.js';
import type { Candidate } from '../jobs/job-cursors.js';
import type { ClaimVerdict } from './claim.js';
import { RunStarter } from './executor.service.js';
import { placesOf } from './waiting-runs.service.js';

/**
 * What is due, in the order in which this instance tries it. Where more is due than there is room for it is kept from
 * tick to tick: to sort thousands of occurrences for each place that gets free would take longer than to claim them.
 */
export class Agenda {
  private next = 0;
  /** Left in this pass for the next one: it could not be decided. */
  private later: Candidate[] = [];
  private readonly stuck = new Set<string>();

  /**
   * @param candidates the first to be tried first; of each job, the oldest first
   * @param isOpen false for one that need not be tried any more
   */
  constructor(
    private candidates: readonly Candidate[],
    private readonly isOpen: (candidate: Candidate) => boolean,
  ) {}

  /** Something is left to be tried. */
  get isLeft(): boolean {
    return this.first !== undefined || this.later.some(this.isOpen);
  }

  /** The next to be tried in this pass. */
  get first(): Candidate | undefined {
    while (this.next < this.candidates.length) {
      const candidate = this.candidates[this.next]!;
      if (!this.isOpen(candidate)) this.next++;
      else if (!this.stuck.has(candidate.job.name)) return candidate;
      else {
        this.later.push(candidate);
        this.next++;
      }
    }
    return undefined;
  }

  /** Takes the next ones out. */
  take(most: number): Candidate[] {
    const taken: Candidate[] = [];
    for (let next = this.first; next && taken.length < most; next = this.first) {
      taken.push(next);
      this.next++;
    }
    return taken;
  }

  /** What is left in this pass: a look, which takes nothing out. */
  rest(): Candidate[] {
    return this.candidates
      .slice(this.next)
      .filter((candidate) => !this.stuck.has(candidate.job.name) && this.isOpen(candidate));
  }

  /** What was taken of these jobs is to be tried again in the next pass, and what follows of them not before. */
  putBack(taken: readonly Candidate[], jobNames: ReadonlySet<string>): void {
    if (jobNames.size === 0) return;
    for (const candidate of taken) if (jobNames.has(candidate.job.name)) this.later.push(candidate);
    for (const name of jobNames) this.stuck.add(name);
  }

  /** Begins another pass: what could not be decided comes first. */
  startPass(): void {
    if (this.later.length > 0) {
      this.candidates = [...this.later, ...this.candidates.slice(this.next)];
      this.next = 0;
    }
    this.later = [];
    this.stuck.clear();
  }
}

/** What is due at one instant. */
export interface Due {
  readonly agenda: Agenda;
  /** Those it comes from: a job may have another one by now, with other fire times. */
  readonly cursors: ReadonlyMap<JobDefinition, JobCursor>;
  readonly lookedAt: number;
  /** Those that runs may have waited for longer, in the same places. */
  readonly contested: readonly Candidate[];
  /** Some of it was missed, or a handler of its job lingers here. */
  readonly heldBack: boolean;
  /** Left to others for the moment. */
  readonly yielded: readonly Candidate[];
  /** When the first of that is to be tried here, milliseconds; Infinity when nothing is. */
  readonly yieldedUntil: number;
  /** Whether any of the rest has been decided by others was looked for. */
  looked: boolean;
  /** When something else is due, milliseconds; as it was when the first of this had started. */
  nextDueAt: number | null;
}

/** What is due on this instance: what it tries at once, and what it leaves to others for a moment. */
@Injectable()
export class DueRuns {
  constructor(
    private readonly cursors: JobCursors,
    private readonly order: ClaimOrder,
    private readonly starter: RunStarter,
  ) {}

  /** When something else comes due than what is due at `after`, milliseconds; Infinity when nothing does. */
  nextDueAt(after = -Infinity): number {
    return this.cursors.nextDueAfter(after);
  }

  isMine(job: JobDefinition): boolean {
    return this.order.isMine(job);
  }

  look(now: number): Due {
    const { live, missed } = this.cursors.due(now);
    if (missed.length > 0) this.cursors.tellMissed();
    const free = live.filter(({ job }) => !this.starter.lingers(job));
    const due = this.order.sort(free.flatMap((cursor) => cursor.due(now)));
    const open: Candidate[] = [];
    const yielded: Candidate[] = [];
    let yieldedUntil = Infinity;
    for (const candidate of due) {
      const until = candidate.startsAt + this.order.yieldMs(candidate.job);
      if (until > now) yieldedUntil = Math.min(yieldedUntil, until);
      (until > now ? yielded : open).push(candidate);
    }
    const cursors = new Map(free.map((cursor) => [cursor.job, cursor]));
    const isOpen = ({ job, fireTime }: Candidate) => {
      const cursor = cursors.get(job)!;
      return fireTime > cursor.decidedUntil && this.cursors.has(cursor) && !this.starter.lingers(job);
    };
    return {
      agenda: new Agenda(open, isOpen),
      cursors,
      lookedAt: now,
      contested: open.filter(({ job }) => placesOf(job) !== null),
      heldBack: missed.length > 0 || free.length < live.length,
      yielded,
      yieldedUntil,
      looked: false,
      nextDueAt: null,
    };
  }

  /**
   * Of what others were to try most is decided by now: a look costs less than a claim that is lost. It is for all there
   * is, also for what is still left to them, or each would need a look of its own later.
   */
  async passOverDecided({ agenda, cursors, yielded }: Due): Promise<void> {
    const open = [...agenda.rest(), ...yielded];
    const decided = await this.starter.decided(open);
    this.advance(
      cursors,
      open,
      decided.map((isDecided) => (isDecided ? 'taken' : 'waiting')),
    );
  }

  /**
   * A cursor moves over what is decided, up to the first occurrence that is not: nothing is forgotten behind a newer
   * row.
   * @returns the jobs it did not move to the end
   */
  advance(cursors: Due['cursors'], batch: readonly Candidate[], verdicts: readonly ClaimVerdict[]): Set<string> {
    const stuck = new Set<string>();
    batch.forEach(({ job, fireTime }, index) => {
      const verdict = verdicts[index]!;
      if (verdict === 'early' || verdict === 'waiting' || verdict === 'outdated') stuck.add(job.name);
      if (!stuck.has(job.name)) cursors.get(job)!.decideUntil(fireTime);
    });
    return stuck;
  }
}
