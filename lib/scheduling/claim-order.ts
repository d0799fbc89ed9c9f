import { createHash } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { INSTANCE_ID } from '../distributed-scheduler.tokens.js';
import type { Candidate } from '../execution/claim.service.js';

/**
 * The order in which an instance claims: oldest first, and among jobs that are due together an order of its own. Were it
 * the same everywhere, the fastest replica would be ahead of the others at every job and take them all.
 */
@Injectable()
export class ClaimOrder {
  private readonly ranks = new Map<string, number>();

  constructor(@Inject(INSTANCE_ID) private readonly instanceId: string) {}

  sort(candidates: readonly Candidate[]): Candidate[] {
    return [...candidates].sort((a, b) => a.startsAt - b.startsAt || this.rank(a.job.name) - this.rank(b.job.name));
  }

  private rank(jobName: string): number {
    let rank = this.ranks.get(jobName);
    if (rank === undefined) {
      rank = createHash('sha256').update(`${this.instanceId}\n${jobName}`).digest().readUInt32BE(0);
      this.ranks.set(jobName, rank);
    }
    return rank;
  }
}
