import { Injectable } from '@nestjs/common';
import { databaseTrouble } from '../errors/database-trouble.js';
import { DatabaseTime, monotonicNow } from '../database/clock.js';
import { decideOutcome, type Failure, type HandlerEnd, type Outcome, readFailure } from './outcome.js';
import { describeError, type StoredError } from '../errors/stored-error.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { isRefusedData } from '../database/sql-state.js';
import { retry } from '../database/retry.js';
import { FanOutStore } from '../fan-out/page.repository.js';
import { JobRunRepository, type Ending, type WrittenEnd } from './job-run.repository.js';
import { EndWriter } from './end-writer.js';
import type { InFlightRun } from './in-flight-runs.js';

/** What was refused, when an attempt's end was. */
const WRITES = {
  done: 'completion',
  released: 'release',
  retry: 'failure',
  dead: 'failure',
  cancelled: 'cancellation',
} as const;

/**
 * Writes how attempts ended. A write that fails is tried again for as long as the lease holds: a success that could not
 * be recorded would be run again.
 */
@Injectable()
export class RunEndings {
  constructor(
    private readonly store: JobRunRepository,
    private readonly writer: EndWriter,
    private readonly fanOuts: FanOutStore,
    private readonly events: SchedulerEvents,
    private readonly time: DatabaseTime,
  ) {}

  /** Reads what the handler threw, by the job's own rule. */
  failure(run: InFlightRun, thrown: unknown): Failure {
    const failure = readFailure(thrown, run.settled ? null : run.job.retryable, this.time.now());
    if (failure.complaint) this.complain(run, 'retryable', failure.complaint);
    return failure;
  }

  /**
   * Decides what becomes of a run whose handler has ended. A backoff function is the application's code: what it throws
   * costs the run its other attempts, not the process, nor its error.
   */
  decide(run: InFlightRun, end: HandlerEnd): Outcome {
    try {
      return decideOutcome(end, run.job, run.owned.attempt - run.owned.releases, Math.random());
    } catch (thrown) {
      const complaint = describeError(thrown);
      this.complain(run, 'backoff', complaint);
      const error = end.kind === 'failed' ? end.error : complaint;
      return { kind: 'dead', error, reason: `its backoff threw: ${complaint.message}` };
    }
  }

  /** @returns how the attempt ended in the database; null when what was to be written is refused */
  async write(run: InFlightRun, outcome: Outcome, durationMs: number): Promise<WrittenEnd | null> {
    run.ending = true;
    const written = run.leaseLost ? null : await this.persist(run, outcome);
    run.settled = true;
    this.report(run, outcome, durationMs, written);
    return written;
  }

  /** Writes the completion of a run whose handler goes on. @returns false when the run is no longer ours */
  async complete(run: InFlightRun): Promise<boolean> {
    return (await this.persist(run, { kind: 'done' })) !== null;
  }

  /**
   * Whether a completion whose commit was not answered was carried out; false also when that cannot be found out while
   * the lease holds.
   */
  async isCompleted(run: InFlightRun): Promise<boolean> {
    return (await this.retry(run, () => this.store.isCompleted(run.owned))) ?? false;
  }

  /** The run is done, and its handler goes on. */
  completed(run: InFlightRun): void {
    run.settled = true;
    this.report(run, { kind: 'done' }, monotonicNow() - run.startedAt, { status: 'done', reason: null });
  }

  /** @returns how the attempt ended in the database; null when it is no longer ours to end */
  private persist(run: InFlightRun, outcome: Outcome): Promise<WrittenEnd | null> {
    const ending = outcome.kind === 'done' ? null : endingOf(outcome);
    const fansOut = outcome.kind === 'done' && mayHavePages(run);
    return this.retry(run, async (failures) => {
      const alone = () => (fansOut ? this.fanOuts.complete(run.owned) : this.writer.writeAlone(run.owned, ending));
      // What failed in company may be another run's fault.
      if (failures === 0) return fansOut ? alone() : this.writer.write(run.owned, ending);
      return (await alone()) ?? this.store.endOf(run.owned);
    });
  }

  /** Asks the database until it answers, for as long as the lease holds. @returns null when it does not */
  private retry<Answer>(run: InFlightRun, ask: (failures: number) => Promise<Answer>): Promise<Answer | null> {
    return retry(ask, (error, failures, waitMs) => {
      if (isRefusedData(error) && failures > 1) {
        // The same again would be refused again: its lease runs out, and the reaper says what became of it.
        const { jobName, fireTime } = run.owned;
        this.events.emit({ type: 'data.refused', jobName, fireTime, step: 'end', error: describeError(error) });
        return false;
      }
      this.events.emit({
        type: 'loop.failed',
        loop: `ending of ${run.id}`,
        error: describeError(error),
        failures,
        trouble: databaseTrouble(error),
      });
      return !run.leaseLost && monotonicNow() + waitMs < run.leaseDeadline;
    }).catch(() => null);
  }

  private complain(run: InFlightRun, option: 'retryable' | 'backoff', error: StoredError): void {
    const { jobName, fireTime, attempt } = run.owned;
    this.events.emit({ type: 'policy.failed', jobName, fireTime, attempt, option, error });
  }

  private report(run: InFlightRun, outcome: Outcome, durationMs: number, written: WrittenEnd | null): void {
    const { jobName, fireTime, attempt } = run.owned;
    const facts = { jobName, fireTime, attempt };
    if (!written) {
      this.events.emit({ type: 'run.refused', ...facts, write: WRITES[outcome.kind] });
      return;
    }
    // Somebody cancelled it, and this process had not heard of it.
    if (written.status === 'cancelled')
      return this.events.emit({ type: 'run.cancelled', ...facts, reason: written.reason ?? '' });
    if (written.status === 'fanned_out')
      return this.events.emit({ type: 'run.fannedOut', ...facts, pages: written.pages ?? 0, durationMs });
    if (written.status === 'dead' && outcome.kind === 'done')
      return this.events.emit({
        type: 'run.dead',
        ...facts,
        error: written.error ?? describeError(written.reason),
        reason: written.reason ?? '',
      });
    switch (outcome.kind) {
      case 'done':
        return this.events.emit({ type: 'run.completed', ...facts, durationMs });
      case 'released':
        return this.events.emit({ type: 'run.released', ...facts });
      case 'cancelled':
        return this.events.emit({ type: 'run.cancelled', ...facts, reason: outcome.reason });
      case 'retry':
        return this.events.emit({
          type: 'run.failed',
          ...facts,
          durationMs,
          error: outcome.error,
          retryInMs: outcome.delayMs,
        });
      case 'dead':
        return this.events.emit({ type: 'run.dead', ...facts, error: outcome.error, reason: outcome.reason });
    }
  }
}

/** An earlier attempt may have published some, too. */
function mayHavePages(run: InFlightRun): boolean {
  return run.publishes || run.owned.attempt > 1;
}

function endingOf(outcome: Exclude<Outcome, { kind: 'done' }>): Ending {
  switch (outcome.kind) {
    case 'released':
      return {
        status: 'queued',
        reason: outcome.reason ?? 'released by a stopping instance',
        error: null,
        retryInMs: 0,
        releases: 1,
      };
    case 'cancelled':
      return { status: 'cancelled', reason: outcome.reason, error: null, retryInMs: null, releases: 0 };
    case 'retry':
      return { status: 'failed', reason: null, error: outcome.error, retryInMs: outcome.delayMs, releases: 0 };
    case 'dead':
      return { status: 'dead', reason: outcome.reason, error: outcome.error, retryInMs: null, releases: 0 };
  }
}
