import { monotonicNow } from '../database/clock.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import type { JobPolicies } from '../options/job-definition.js';
import { type InFlightRun, InFlightRuns } from './in-flight-runs.js';

/** What happens to a run because of the time it has taken. */
export type Limit =
  /** It is told to take longer than it should. */
  | 'budget'
  /** Its signal is aborted. */
  | 'timeout'
  /** It has not ended, though it was told to, or though its time is over and it never is told: it is stuck. */
  | 'stuck'
  /** Its signal is aborted, if it was not; its lease is renewed no more. */
  | 'maxRunTime';

/** How long a handler gets to end before it is called stuck, in milliseconds. */
export const STUCK_AFTER_MS = 5_000;

/** A limit and when it is reached, in milliseconds since the start of the handler. */
interface TimedLimit {
  readonly limit: Limit;
  readonly atMs: number;
}

/**
 * The limits of a run, in the order they are reached.
 * @param stoppedAtMs when its signal was aborted, in milliseconds since its start; null when it was not
 */
export function limitsOf(
  { budgetMs, timeoutMs, maxRunTimeMs }: Pick<JobPolicies, 'budgetMs' | 'timeoutMs' | 'maxRunTimeMs'>,
  stoppedAtMs: number | null,
): TimedLimit[] {
  // A job without a timeout is never told to stop, so its budget is the only sign.
  const overdueAtMs = stoppedAtMs ?? (timeoutMs === null ? budgetMs : null);
  const limits: { limit: Limit; atMs: number | null }[] = [
    { limit: 'budget', atMs: budgetMs },
    { limit: 'timeout', atMs: timeoutMs },
    { limit: 'stuck', atMs: overdueAtMs === null ? null : overdueAtMs + STUCK_AFTER_MS },
    { limit: 'maxRunTime', atMs: maxRunTimeMs },
  ];
  return limits.filter((one): one is TimedLimit => one.atMs !== null).sort((a, b) => a.atMs - b.atMs);
}

/** The limits that the run has not passed, in their order; when, by the monotonic clock, in milliseconds. */
function limitsAhead({ job, startedAt, stoppedAt, limitsPassed }: InFlightRun): TimedLimit[] {
  return limitsOf(job, stoppedAt === null ? null : stoppedAt - startedAt)
    .filter(({ limit }) => !limitsPassed.has(limit))
    .map(({ limit, atMs }) => ({ limit, atMs: startedAt + atMs }));
}

/** Does what the time says that runs have taken: tells, aborts, gives up. By the monotonic clock. */
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
    const [next] = limitsAhead(run);
    const atMs = Math.min(next?.atMs ?? Infinity, run.settled ? run.renewUntil : Infinity);
    return Math.max(0, atMs - monotonicNow());
  }

  private checkRun(run: InFlightRun): void {
    const now = monotonicNow();
    if ((run.leaseLost || run.settled) && run.renewUntil <= now) return this.runs.giveUp(run);
    if (run.leaseLost || run.ending) return;
    for (const { limit, atMs } of limitsAhead(run)) {
      if (atMs > now) return;
      run.limitsPassed.add(limit);
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
