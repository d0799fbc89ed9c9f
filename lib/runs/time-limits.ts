import { Injectable } from '@nestjs/common';
import type { Limit } from './run-limits.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { monotonicNow } from '../database/clock.js';
import { InFlightRuns, type InFlightRun } from './in-flight-runs.js';

/** Does what the time says that runs have taken: tells, aborts, gives up. By the monotonic clock. */
@Injectable()
export class TimeLimits {
  constructor(
    private readonly runs: InFlightRuns,
    private readonly events: SchedulerEvents,
  ) {}

  /** @returns milliseconds until a limit may be reached */
  check(): number {
    for (const run of this.runs.list()) this.checkRun(run);
    return Math.min(...this.runs.list().map((run) => this.nextOf(run)));
  }

  /** Milliseconds until the run reaches its next limit; Infinity when there is none. */
  nextOf(run: InFlightRun): number {
    if (run.leaseLost) return Math.max(0, run.renewUntil - monotonicNow());
    // Its handler has ended: time has no more to say to it.
    if (run.ending) return Infinity;
    const [next] = run.limitsAhead();
    const atMs = Math.min(next?.atMs ?? Infinity, run.settled ? run.renewUntil : Infinity);
    return Math.max(0, atMs - monotonicNow());
  }

  private checkRun(run: InFlightRun): void {
    const now = monotonicNow();
    if ((run.leaseLost || run.settled) && run.renewUntil <= now) return this.runs.giveUp(run);
    if (run.leaseLost || run.ending) return;
    for (const { limit, atMs } of run.limitsAhead()) {
      if (atMs > now) return;
      run.passLimit(limit);
      this.reach(run, limit);
    }
  }

  private reach(run: InFlightRun, limit: Limit): void {
    const { jobName, fireTime, attempt } = run.owned;
    const facts = { jobName, fireTime, attempt, runningMs: Math.round(monotonicNow() - run.startedAt) };
    // Its run is done: what its handler still does takes nothing from anybody until it is told to stop, and does not.
    if (run.settled && !run.signal.aborted && (limit === 'budget' || limit === 'stuck')) return;
    switch (limit) {
      case 'budget':
        return this.events.emit({ type: 'run.overBudget', ...facts, budgetMs: run.job.budgetMs! });
      case 'timeout':
      case 'maxRunTime':
        if (!run.signal.aborted) this.events.emit({ type: 'run.timedOut', ...facts, limit });
        return run.timeOut(limit);
      case 'stuck':
        return this.events.emit({ type: 'run.stuck', ...facts, told: run.signal.aborted });
    }
  }
}
