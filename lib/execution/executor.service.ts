import { Injectable } from '@nestjs/common';
import { KnownJobs, type RegisteredJob } from '../discovery/known-jobs.js';
import { decideOutcome, type HandlerEnd, type Outcome } from '../domain/outcome.js';
import type { OwnedRun } from '../domain/run.js';
import { describeError } from '../domain/stored-error.js';
import { SchedulerEvents } from '../events/scheduler-events.js';
import { DatabaseTime } from '../runtime/database-time.js';
import { monotonicNow } from '../runtime/monotonic.js';
import { CronRun } from '../domain/cron-run.js';
import { HeartbeatService } from './heartbeat.service.js';
import { InFlightRun, InFlightRuns } from './in-flight-runs.js';
import { RunContext } from './run-context.js';
import { RunEndings } from './run-endings.service.js';

/** Runs the handlers of owned runs, each in its own context, and has their end written. */
@Injectable()
export class ExecutorService {
  constructor(
    private readonly jobs: KnownJobs,
    private readonly runs: InFlightRuns,
    private readonly heartbeat: HeartbeatService,
    private readonly context: RunContext,
    private readonly endings: RunEndings,
    private readonly time: DatabaseTime,
    private readonly events: SchedulerEvents,
  ) {}

  /** Starts the handlers of runs whose lease still holds; returns at once. */
  start(owned: readonly OwnedRun[]): void {
    const started = owned.flatMap((one) => {
      const job = this.jobs.get(one.jobName)!;
      const run = new InFlightRun(one, job.definition);
      // A process that was frozen or blocked after its claim: another may have begun.
      if (run.leaseDeadline <= monotonicNow()) {
        this.runs.lose(run, 'expired');
        return [];
      }
      this.runs.add(run);
      this.heartbeat.watch(run);
      return [{ run, job }];
    });
    for (const { run, job } of started) {
      this.execute(run, job).catch((error: unknown) =>
        this.events.emit({ type: 'loop.failed', loop: `execution of ${run.id}`, error: describeError(error), failures: 1 }),
      );
    }
  }

  private async execute(run: InFlightRun, job: RegisteredJob): Promise<void> {
    const { jobName, fireTime, attempt } = run.owned;
    const startedAt = monotonicNow();
    this.events.emit({ type: 'run.started', jobName, fireTime, attempt, delayMs: this.time.now() - fireTime.getTime() });
    try {
      const end = await this.handle(run, job);
      await this.endings.write(run, this.decide(end, run), monotonicNow() - startedAt);
    } finally {
      this.heartbeat.forget(run);
      this.runs.remove(run);
    }
  }

  private async handle(run: InFlightRun, job: RegisteredJob): Promise<HandlerEnd> {
    try {
      await this.context.enter(run, () => job.handler(this.cronRun(run, job)));
      await run.end();
      return endedEarly(run) ?? { kind: 'returned' };
    } catch (thrown) {
      await run.end().catch(() => {});
      return endedEarly(run) ?? { kind: 'threw', error: describeError(thrown) };
    }
  }

  /** A backoff function is the application's code: what it throws costs the run its other attempts, not the process. */
  private decide(end: HandlerEnd, run: InFlightRun): Outcome {
    try {
      return decideOutcome(end, run.job, run.owned.attempt - run.owned.releases, Math.random());
    } catch (thrown) {
      return { kind: 'dead', error: describeError(thrown) };
    }
  }

  private cronRun(run: InFlightRun, { definition }: RegisteredJob): CronRun {
    const { jobName, fireTime, attempt, trigger } = run.owned;
    return new CronRun({
      jobName,
      fireTime,
      previousFireTime: () => {
        const previous = definition.schedule.previousBefore(fireTime.getTime());
        return previous === null ? null : new Date(previous);
      },
      attempt,
      trigger,
      data: run.owned.data ?? definition.data,
      signal: run.signal,
      leaseUntil: () => run.leaseUntil,
    });
  }
}

/** A handler that was told to stop has not done its work, whatever it returned or threw. */
function endedEarly(run: InFlightRun): HandlerEnd | null {
  if (run.cancelled) return { kind: 'cancelled', reason: run.cancelled.reason };
  return run.stopping ? { kind: 'stopped' } : null;
}
