import { Inject, Injectable } from '@nestjs/common';
import { INSTANCE_ID } from '../options/tokens.js';
import type { JobDefinition } from '../options/job-definition.js';
import { mixed, textHash } from '../jobs/job-instance.store.js';
import type { Candidate } from '../jobs/job-cursors.js';

/** What is remembered of a job, as long as the instances are the same. */
interface Place {
  readonly rank: number;
  /** How many others are to try before this instance. */
  readonly after: number;
}

/**
 * What is another's to try is left to it for so long, milliseconds: whoever looks later finds it claimed, and writes
 * nothing.
 */
const YIELD_MS = 20;

/** To each instance that comes after that, so many times as long. */
const LONGER_FOR_THE_NEXT = 10;

/**
 * All instances together look so often for what others were to try, milliseconds between two looks: however many they
 * are, it is no more.
 */
const LOOK_OF_ALL_EVERY_MS = 50;

/**
 * The order in which an instance claims: of each job first the oldest, so that a job with many late occurrences does
 * not push the others out; of those the oldest; and of what is due together first the jobs that are this instance's to
 * try.
 *
 * Whose a job is to try follows from its name and the ids of the live instances that have the same jobs (rendezvous
 * hashing), so all agree without a word, and when one goes only its jobs change hands. It is no more than an order:
 * whoever is first still wins by the row, and an instance that does not know the others tries all jobs at once.
 */
@Injectable()
export class ClaimOrder {
  private places = new WeakMap<JobDefinition, Place>();
  private readonly own: number;
  private others: readonly number[] = [];
  private company = '';

  constructor(@Inject(INSTANCE_ID) private readonly instanceId: string) {
    this.own = textHash(instanceId);
  }

  /**
   * The live instances that have the same jobs are these, by their ids; this one may be among them. What is left to one
   * that does not know the job would be late each time, and where jobs are new it costs no more than a claim that is
   * lost.
   */
  hear(instanceIds: readonly string[]): void {
    const company = instanceIds.join('\n');
    if (company === this.company) return;
    this.company = company;
    this.others = instanceIds.filter((id) => id !== this.instanceId).map(textHash);
    this.places = new WeakMap();
  }

  /** True when this instance tries the job at once, and the others a moment later. */
  isMine(job: JobDefinition): boolean {
    return this.place(job).after === 0;
  }

  /**
   * For how long the job is left to others. The next one tries after a moment; the more are before this one, the less
   * likely it is that there is anything left to do, and what comes due meanwhile is looked at together.
   * @returns milliseconds
   */
  yieldMs(job: JobDefinition): number {
    const { after } = this.place(job);
    if (after === 0) return 0;
    return Math.min(
      YIELD_MS * LONGER_FOR_THE_NEXT ** (after - 1),
      Math.max(YIELD_MS, LOOK_OF_ALL_EVERY_MS * (this.others.length + 1)),
    );
  }

  /** @param candidates of each job, oldest first */
  sort(candidates: readonly Candidate[]): Candidate[] {
    const seen = new Map<JobDefinition, number>();
    const placed = candidates.map((candidate) => {
      const turn = seen.get(candidate.job) ?? 0;
      seen.set(candidate.job, turn + 1);
      const { after, rank } = this.place(candidate.job);
      return { candidate, turn, startsAt: candidate.startsAt, isOthers: after > 0 ? 1 : 0, rank };
    });
    placed.sort((a, b) => a.turn - b.turn || a.startsAt - b.startsAt || a.isOthers - b.isOthers || a.rank - b.rank);
    return placed.map(({ candidate }) => candidate);
  }

  private place(job: JobDefinition): Place {
    let place = this.places.get(job);
    if (!place) {
      const name = textHash(job.name);
      const rank = mixed(name ^ this.own);
      place = { rank, after: this.others.filter((other) => mixed(name ^ other) > rank).length };
      this.places.set(job, place);
    }
    return place;
  }
}
