import { setImmediate } from 'node:timers/promises';
import type { INestApplicationContext } from '@nestjs/common';
import { TickerService } from '../../dist/lib/runs/ticker.service.js';
import { InFlightRuns } from '../../dist/lib/runs/in-flight-runs.js';
import { DatabaseTime } from '../../dist/lib/database/clock.js';
import { JobCursors } from '../../dist/lib/jobs/job-cursors.js';
import { WatermarkService } from '../../dist/lib/jobs/watermark.service.js';
import type { ClaimAnswers, DueOccurrence } from '../../dist/lib/runs/claim.js';
import { JobRunRepository, type EndedAttempt } from '../../dist/lib/runs/job-run.repository.js';

const HOUR_MS = 3_600_000;

/**
 * Time as it passes in an application whose scheduler is not enabled. Everything is its own but the clock and the
 * database's answers to claims and ends: every other occurrence is won and its handler runs, the rest is another
 * replica's.
 */
export class SimulatedDay {
  fires = 0;
  private now = Date.now();
  private readonly cursors: JobCursors;
  private readonly ticker: TickerService;
  private readonly watermarks: WatermarkService;
  private readonly runs: InFlightRuns;

  constructor(app: INestApplicationContext) {
    const [runs, time] = [JobRunRepository, DatabaseTime].map((token) => app.get<object>(token, { strict: false }));
    this.cursors = app.get(JobCursors, { strict: false });
    this.ticker = app.get(TickerService, { strict: false });
    this.watermarks = app.get(WatermarkService, { strict: false });
    this.runs = app.get(InFlightRuns, { strict: false });
    Object.assign(time!, { now: () => this.now, observe: () => {} });
    Object.assign(runs!, {
      claimDue: async (due: readonly DueOccurrence[]) => this.answer(due),
      withRow: async () => [],
    });
    Object.assign(runs!, {
      endAll: async (given: readonly EndedAttempt[]) =>
        given.map(() => ({ kind: 'written', end: { status: 'done', reason: null } })),
    });
  }

  async run(hours: number): Promise<void> {
    for (const until = this.now + hours * HOUR_MS; this.now < until; ) {
      const hour = Math.floor(this.now / HOUR_MS);
      this.now = Math.min(until, Math.max(this.now + 1, this.cursors.nextDueAt));
      await this.ticker.tick();
      while (this.runs.taken > 0) await setImmediate();
      if (Math.floor(this.now / HOUR_MS) > hour) await this.watermarks.remember();
    }
  }

  private answer(due: readonly DueOccurrence[]): ClaimAnswers {
    const leaseUntil = new Date(this.now + 60_000);
    const answers = due.map(({ jobName, fireTime }) => {
      const isOurs = this.fires++ % 2 === 0;
      const won = { attempt: 1, releases: 0, trigger: 'schedule' as const, leaseUntil };
      const lost = { attempt: null, releases: null, trigger: null, leaseUntil: null };
      return {
        jobName,
        fireTime,
        verdict: isOurs ? ('claimed' as const) : ('taken' as const),
        reason: null,
        beside: false,
        pages: null,
        data: null,
        checkpoint: null,
        ...(isOurs ? won : lost),
      };
    });
    return { databaseNow: new Date(this.now), answers };
  }
}
