import { Injectable } from '@nestjs/common';
import { KnownJobs, type RegisteredJob } from '../jobs/known-jobs.js';
import { isVerdict, readFailure } from './outcome.js';
import { decideOutcome, type HandlerEnd, type Outcome } from './outcome.js';
import type { OwnedRun } from '../options/run.js';
import { describeError, type StoredError } from '../errors/stored-error.js';
import { CancelledError } from '../errors/run.errors.js';
import { TimeoutError } from '../errors/run.errors.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { DatabaseTime } from '../database/clock.js';
import { monotonicNow } from '../database/clock.js';
import { CronRun } from './cron-run.js';
import { cronRunFacts } from './cron-run.js';
import { HandOver } from './hand-over.js';
import { HeartbeatService } from './heartbeat/heartbeat.service.js';
import { IdempotencyKeys } from './idempotency-key.js';
import { InFlightRun, InFlightRuns } from './in-flight-runs.js';
import { RunContext } from './run-context.js';
import { RunEndings } from './run-endings.service.js';
import { RunStepsService } from './run-steps.service.js';

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
    private readonly handOver: HandOver,
    private readonly keys: IdempotencyKeys,
    private readonly steps: RunStepsService,
  ) {}

  /** Starts the handlers of runs whose lease still holds; returns at once. */
  start(owned: readonly OwnedRun[]): void {
    const started = owned.flatMap((one) => {
      const job = this.jobs.get(one.jobName)!;
      const run = new InFlightRun(one, job.definition, this.runs.lifeline);
      // A process that was frozen or blocked after its claim: another may have begun.
      const loss = run.lossAt(monotonicNow());
      if (loss) {
        this.runs.lose(run, loss);
        return [];
      }
      this.runs.add(run);
      return [{ run, job }];
    });
    this.heartbeat.watch(started.map(({ run }) => run));
    for (const { run, job } of started) {
      this.execute(run, job).catch((error: unknown) =>
        this.events.emit({
          type: 'loop.failed',
          loop: `execution of ${run.id}`,
          error: describeError(error),
          failures: 1,
        }),
      );
    }
  }

  private async execute(run: InFlightRun, job: RegisteredJob): Promise<void> {
    const { jobName, fireTime, attempt } = run.owned;
    const startedAt = monotonicNow();
    this.events.emit({
      type: 'run.started',
      jobName,
      fireTime,
      attempt,
      delayMs: this.time.now() - fireTime.getTime(),
    });
    try {
      const end = await this.handle(run, job);
      // How it ended is written already.
      if (run.handedOver) return;
      // A handler that had its run completed has no say in it any more.
      if (run.settled) this.tellEnd(run, end);
      else await this.endings.write(run, this.decide(end, run), monotonicNow() - startedAt);
    } finally {
      this.heartbeat.forget(run);
      this.runs.remove(run);
    }
  }

  private tellEnd(run: InFlightRun, end: HandlerEnd): void {
    const { jobName, fireTime, attempt } = run.owned;
    this.events.emit({
      type: 'run.woundUp',
      jobName,
      fireTime,
      attempt,
      error: end.kind === 'failed' ? end.error : null,
    });
  }

  private async handle(run: InFlightRun, job: RegisteredJob): Promise<HandlerEnd> {
    try {
      await this.context.enter(run, this.cronRun(run, job), (cronRun) => job.handler(cronRun));
      await run.end();
      return this.stopped(run) ?? { kind: 'returned' };
    } catch (thrown) {
      await run.end().catch(() => {});
      return this.stopped(run, thrown) ?? this.failed(run, thrown);
    }
  }

  /**
   * The end of a handler that was told to stop: why it was told decides, not what it did then.
   * @returns null when it was not told, or when nothing that is written about it is accepted anyway
   */
  private stopped(run: InFlightRun, thrown?: unknown): HandlerEnd | null {
    const { stopReason } = run;
    if (!stopReason || run.leaseLost || run.settled) return null;
    if (stopReason instanceof CancelledError) return { kind: 'cancelled', reason: stopReason.reason };
    if (stopReason instanceof TimeoutError) return this.failed(run, isVerdict(thrown) ? thrown : stopReason);
    return { kind: 'stopped' };
  }

  private failed(run: InFlightRun, thrown: unknown): HandlerEnd {
    const failure = readFailure(thrown, run.settled ? null : run.job.retryable, this.time.now());
    if (failure.complaint) this.complain(run, 'retryable', failure.complaint);
    return { kind: 'failed', ...failure };
  }

  /**
   * A backoff function is the application's code: what it throws costs the run its other attempts, not the process, nor
   * its error.
   */
  private decide(end: HandlerEnd, run: InFlightRun): Outcome {
    try {
      return decideOutcome(end, run.job, run.owned.attempt - run.owned.releases, Math.random());
    } catch (thrown) {
      const complaint = describeError(thrown);
      this.complain(run, 'backoff', complaint);
      return {
        kind: 'dead',
        error: end.kind === 'failed' ? end.error : complaint,
        reason: `its backoff threw: ${complaint.message}`,
      };
    }
  }

  private complain(run: InFlightRun, option: 'retryable' | 'backoff', error: StoredError): void {
    const { jobName, fireTime, attempt } = run.owned;
    this.events.emit({ type: 'policy.failed', jobName, fireTime, attempt, option, error });
  }

  private cronRun(run: InFlightRun, { definition }: RegisteredJob): CronRun {
    return new CronRun({
      ...cronRunFacts(run, definition, this.keys.secret),
      release: (reason) => this.handOver.release(run, reason),
      steps: this.steps.of(run),
    });
  }
}
