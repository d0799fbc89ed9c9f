import type { Candidate } from './claim.service.js';

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
