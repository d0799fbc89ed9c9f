import type { JobDefinition } from '../../dist/lib/options/job-definition.js';
import type { Candidate } from '../../dist/lib/runs/claim.service.js';
import { ClaimOrder } from '../../dist/lib/runs/claim-order.js';
import { JobCursor } from '../../dist/lib/jobs/job-cursor.js';
import { TickerService } from '../../dist/lib/runs/ticker.service.js';
import { JobCursors } from '../../dist/lib/jobs/job-cursors.js';

/**
 * A ticker on a clock that is set by hand, and whose claims are all lost to another replica: what is left is its own
 * work.
 */
export class FakedTicker {
  /** How many occurrences were asked for. */
  asked = 0;
  private now: number;
  private readonly ticker: TickerService;

  constructor(jobs: readonly JobDefinition[], startedAt: number) {
    this.now = startedAt;
    const cursors = new JobCursors();
    for (const job of jobs) cursors.set(new JobCursor(job, startedAt));
    const claimDue = async (candidates: readonly Candidate[]) => {
      this.asked += candidates.length;
      return { owned: [], verdicts: candidates.map(() => 'taken') };
    };
    this.ticker = new TickerService(
      { pollIntervalMs: 5_000, maxConcurrentRuns: 1_000 } as never,
      cursors,
      new ClaimOrder('bench'),
      { claimDue } as never,
      { start: () => {} } as never,
      { wake: () => {} } as never,
      { startBefore: async () => {} } as never,
      { taken: 0, reserving: (_places: number, work: () => Promise<unknown>) => work(), lingers: () => false } as never,
      { now: () => this.now } as never,
      { emit: () => {} } as never,
    );
  }

  /** @returns milliseconds to the next due instant */
  async tick(now: number): Promise<number> {
    this.now = now;
    return this.ticker.tick();
  }
}
