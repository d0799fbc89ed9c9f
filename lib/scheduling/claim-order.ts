import { createHash } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { INSTANCE_ID } from '../distributed-scheduler.tokens.js';
import type { JobDefinition } from '../domain/job-definition.js';
import type { Candidate } from '../execution/claim.service.js';

/**
 * The order in which an instance claims: of each job first the oldest, so that a job with many late occurrences does not
 * push the others out; of those the oldest; and among jobs that are due together an order of its own. Were it the same
 * everywhere, the fastest replica would be ahead of the others at every job and take them all.
 */
@Injectable()
export class ClaimOrder {
  private readonly ranks = new WeakMap<JobDefinition, number>();

  constructor(@Inject(INSTANCE_ID) private readonly instanceId: string) {}

  /** @param candidates of each job, oldest first */
  sort(candidates: readonly Candidate[]): Candidate[] {
    const seen = new Map<string, number>();
    const placed = candidates.map((candidate) => {
      const turn = seen.get(candidate.job.name) ?? 0;
      seen.set(candidate.job.name, turn + 1);
      return { candidate, turn, rank: this.rank(candidate) };
    });
    placed.sort((a, b) => a.turn - b.turn || a.candidate.startsAt - b.candidate.startsAt || a.rank - b.rank);
    return placed.map(({ candidate }) => candidate);
  }

  private rank({ job }: Candidate): number {
    let rank = this.ranks.get(job);
    if (rank === undefined) {
      rank = createHash('sha256').update(`${this.instanceId}\n${job.name}`).digest().readUInt32BE(0);
      this.ranks.set(job, rank);
    }
    return rank;
  }
}
