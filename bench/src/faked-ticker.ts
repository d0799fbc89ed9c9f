import type { JobDefinition } from '../../dist/lib/options/job-definition.js';
import type { Candidate } from '../../dist/lib/jobs/job-cursors.js';
import { DueRuns } from '../../dist/lib/runs/agenda.js';
import { RunStarter } from '../../dist/lib/runs/executor.service.js';
import { ClaimOrder } from '../../dist/lib/runs/claim-order.js';
import { JobCursor, JobCursors } from '../../dist/lib/jobs/job-cursors.js';
import { TickerService } from '../../dist/lib/runs/ticker.service.js';

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
    const runs = {
      taken: 0,
      reserving: (_places: number, work: () => Promise<unknown>) => work(),
      lingers: () => false,
    };
    const starter = new RunStarter(
      { maxConcurrentRuns: 1_000 },
      runs as never,
      { claimDue } as never,
      { start: () => {} } as never,
      { now: () => this.now } as never,
    );
    this.ticker = new TickerService(
      { pollIntervalMs: 5_000 },
      new DueRuns(cursors, new ClaimOrder('bench'), starter),
      starter,
      { startBefore: async () => {} } as never,
      { emit: () => {} } as never,
    );
  }

  /** @returns milliseconds to the next due instant */
  async tick(now: number): Promise<number> {
    this.now = now;
    return this.ticker.tick();
  }
}
