import { Inject, Injectable } from '@nestjs/common';
import { DatabaseTime, monotonicNow } from '../database/clock.js';
import { describeError } from '../errors/stored-error.js';
import { KnownJobs } from '../jobs/known-jobs.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import type { JobDefinition } from '../options/job-definition.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import type { OwnedRun } from '../options/run.js';
import { SCHEDULER_OPTIONS } from '../options/tokens.js';
import type { ClaimVerdict, WaitingRun } from './claim.js';
import type { Candidate } from '../jobs/job-cursors.js';
import { ClaimService } from './claim.service.js';
import { CronRun, cronRunFacts } from './cron-run.js';
import { IdempotencyKeys } from './idempotency-key.js';
import { InFlightRun, InFlightRuns } from './in-flight-runs.js';
import type { HandlerEnd } from './outcome.js';
import { RunContext } from './run-context.js';
import { AttemptEnds, RunEndings } from './run-endings.service.js';
import { RunStepsService } from './run-steps.service.js';

/** Calls the handlers of runs, each in its own context, with all that it may do with its run. */
@Injectable()
export class RunHandlers {
  constructor(
    private readonly jobs: KnownJobs,
    private readonly context: RunContext,
    private readonly keys: IdempotencyKeys,
    private readonly steps: RunStepsService,
  ) {}

  jobOf(run: OwnedRun): JobDefinition {
    return this.jobs.get(run.jobName)!.definition;
  }

  call(run: InFlightRun): Promise<unknown> {
    const { handler } = this.jobs.get(run.owned.jobName)!;
    const { release, ...steps } = this.steps.of(run);
    const cronRun = new CronRun({ ...cronRunFacts(run, run.job, this.keys.secret), release, steps });
    return this.context.enter(run, cronRun, handler);
  }
}

/** Runs the handlers of owned runs, and has their end written. */
@Injectable()
export class ExecutorService {
  constructor(
    private readonly handlers: RunHandlers,
    private readonly runs: InFlightRuns,
    private readonly ends: AttemptEnds,
    private readonly endings: RunEndings,
    private readonly events: SchedulerEvents,
  ) {}

  /** Starts the handlers of runs whose lease still holds; returns at once. */
  start(owned: readonly OwnedRun[]): void {
    const now = monotonicNow();
    const started = owned
      .map((one) => new InFlightRun(one, this.handlers.jobOf(one), this.runs.lifeline))
      // Not in a process that was frozen or blocked after its claim: another may have begun.
      .filter((run) => this.runs.isOurs(run, now));
    this.runs.add(...started);
    for (const run of started) {
      this.execute(run).catch((error: unknown) => {
        const loop = `execution of ${run.id}`;
        this.events.emit({ type: 'loop.failed', loop, error: describeError(error), failures: 1 });
      });
    }
  }

  private async execute(run: InFlightRun): Promise<void> {
    const { jobName, fireTime, attempt } = run.owned;
    const startedAt = monotonicNow();
    const delayMs = this.ends.time.now() - fireTime.getTime();
    this.events.emit({ type: 'run.started', jobName, fireTime, attempt, delayMs });
    try {
      const end = await this.handle(run);
      // How it ended is written already.
      if (run.handedOver) return;
      // A handler that had its run completed has no say in it any more.
      const error = end.kind === 'failed' ? end.error : null;
      if (run.settled) this.events.emit({ type: 'run.woundUp', jobName, fireTime, attempt, error });
      else await this.endings.write(run, this.ends.decide(run, end), monotonicNow() - startedAt);
    } finally {
      this.runs.remove(run);
    }
  }

  private async handle(run: InFlightRun): Promise<HandlerEnd> {
    try {
      await this.handlers.call(run);
      await run.end();
      return this.ends.read(run, []);
    } catch (thrown) {
      await run.end().catch(() => {});
      return this.ends.read(run, [thrown]);
    }
  }
}

/** Claims what there are places for on this instance, and starts what it has won. */
@Injectable()
export class RunStarter {
  constructor(
    @Inject(SCHEDULER_OPTIONS) private readonly options: Pick<ResolvedSchedulerOptions, 'maxConcurrentRuns'>,
    private readonly runs: InFlightRuns,
    private readonly claims: ClaimService,
    private readonly executor: ExecutorService,
    readonly time: DatabaseTime,
  ) {}

  get places(): number {
    return this.options.maxConcurrentRuns;
  }

  get taken(): number {
    return this.runs.taken;
  }

  get room(): number {
    return Math.max(0, this.places - this.taken);
  }

  /** True when what is left of a run of the job keeps its next one from starting here. */
  lingers(job: JobDefinition): boolean {
    return this.runs.lingers(job);
  }

  /** Whether each of these has a row by now. */
  decided(due: readonly Candidate[]): Promise<boolean[]> {
    return this.claims.decided(due);
  }

  /** @returns a verdict for each, in the order they were given */
  startDue(due: readonly Candidate[]): Promise<readonly ClaimVerdict[]> {
    return this.runs.reserving(due.length, async () => {
      const { owned, verdicts } = await this.claims.claimDue(due);
      this.executor.start(owned);
      return verdicts;
    });
  }

  /** @returns those that were started */
  startWaiting(
    waiting: readonly Pick<WaitingRun, 'jobName' | 'fireTime' | 'attempt' | 'placeNeededAt'>[],
    jobs: ReadonlyMap<string, JobDefinition>,
  ): Promise<readonly OwnedRun[]> {
    return this.runs.reserving(waiting.length, async () => {
      const owned = await this.claims.claimWaiting(waiting, jobs);
      this.executor.start(owned);
      return owned;
    });
  }
}
