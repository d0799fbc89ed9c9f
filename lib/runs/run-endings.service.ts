import { Injectable } from '@nestjs/common';
import { DatabaseTime, monotonicNow } from '../database/clock.js';
import { retry } from '../database/retry.js';
import { isRefusedData } from '../database/sql-state.js';
import { databaseTrouble } from '../errors/database-trouble.js';
import { CancelledError } from '../errors/run.errors.js';
import { describeError, type StoredError } from '../errors/stored-error.js';
import { FanOutStore } from '../fan-out/page.repository.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import type { JobPolicies } from '../options/job-definition.js';
import { EndWriter } from './end-writer.js';
import type { InFlightRun } from './in-flight-runs.js';
import { JobRunRepository, type WrittenEnd } from './job-run.repository.js';
import { decideEnd, DONE, type HandlerEnd, isVerdict, readFailure, type RunEnd, TimeoutError } from './outcome.js';

/** Decides how attempts end, of runs and of pages. What the job's own functions throw is told. */
@Injectable()
export class AttemptEnds {
  constructor(
    readonly time: DatabaseTime,
    private readonly events: SchedulerEvents,
  ) {}

  /**
   * How the handler has ended. Where it was told to stop, why it was told decides, and not what it did then; unless
   * nothing that is written about the run is accepted anyway.
   * @param thrown what it threw, in a list; an empty one when it returned
   */
  read(run: InFlightRun, thrown: readonly unknown[]): HandlerEnd {
    const { stopReason } = run;
    if (!stopReason || run.leaseLost || run.settled)
      return thrown.length === 0 ? { kind: 'returned' } : this.failed(run, thrown[0]);
    if (stopReason instanceof CancelledError) return { kind: 'cancelled', reason: stopReason.reason };
    if (!(stopReason instanceof TimeoutError)) return { kind: 'stopped' };
    return this.failed(run, isVerdict(thrown[0]) ? thrown[0] : stopReason);
  }

  /**
   * What becomes of the run, or the page. A backoff function is the application's code: what it throws costs the run its
   * other attempts, not the process, nor its error.
   * @param attempt that ends; of a run, or of a page
   */
  decide(
    run: InFlightRun,
    end: HandlerEnd,
    policies: Pick<JobPolicies, 'maxAttempts' | 'backoff'> = run.job,
    attempt: { readonly attempt: number; readonly releases: number } = run.owned,
  ): RunEnd {
    try {
      return decideEnd(end, policies, attempt.attempt - attempt.releases, Math.random());
    } catch (thrown) {
      const complaint = describeError(thrown);
      this.complain(run, 'backoff', complaint);
      const error = end.kind === 'failed' ? end.error : complaint;
      return { ...DONE, status: 'dead', error, reason: `its backoff threw: ${complaint.message}` };
    }
  }

  private failed(run: InFlightRun, thrown: unknown): HandlerEnd {
    const retryable = run.settled || run.leaseLost ? null : run.job.retryable;
    const failure = readFailure(thrown, retryable, this.time.now());
    if (failure.complaint) this.complain(run, 'retryable', failure.complaint);
    return { kind: 'failed', ...failure };
  }

  private complain(run: InFlightRun, option: 'retryable' | 'backoff', error: StoredError): void {
    const { jobName, fireTime, attempt } = run.owned;
    this.events.emit({ type: 'policy.failed', jobName, fireTime, attempt, option, error });
  }
}

/** What was refused, when an attempt's end was. */
const WRITES = {
  done: 'completion',
  queued: 'release',
  failed: 'failure',
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
  ) {}

  /** @returns how the attempt ended in the database; null when what was to be written is refused */
  async write(run: InFlightRun, end: RunEnd, durationMs: number): Promise<WrittenEnd | null> {
    run.ending = true;
    const written = run.leaseLost ? null : await this.persist(run, end);
    run.settled = true;
    this.report(run, end, durationMs, written);
    return written;
  }

  /** Writes the completion of a run whose handler goes on. @returns false when the run is no longer ours */
  async complete(run: InFlightRun): Promise<boolean> {
    return (await this.persist(run, DONE)) !== null;
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
    this.report(run, DONE, monotonicNow() - run.startedAt, { status: 'done', reason: null });
  }

  /** @returns how the attempt ended in the database; null when it is no longer ours to end */
  private persist(run: InFlightRun, end: RunEnd): Promise<WrittenEnd | null> {
    const fansOut = end.status === 'done' && run.mayHavePages;
    return this.retry(run, async (failures) => {
      const alone = () => (fansOut ? this.fanOuts.complete(run.owned) : this.writer.writeAlone(run.owned, end));
      // What failed in company may be another run's fault.
      if (failures === 0) return fansOut ? alone() : this.writer.write(run.owned, end);
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
      return run.holdsFor(waitMs);
    }).catch(() => null);
  }

  private report(run: InFlightRun, end: RunEnd, durationMs: number, written: WrittenEnd | null): void {
    const { jobName, fireTime, attempt } = run.owned;
    const facts = { jobName, fireTime, attempt };
    if (!written) return this.events.emit({ type: 'run.refused', ...facts, write: WRITES[end.status] });
    const [error, reason] = [written.error ?? end.error, written.reason ?? end.reason ?? ''];
    switch (written.status === 'cancelled' || written.status === 'fanned_out' ? written.status : end.status) {
      // Also where somebody cancelled it, and this process had not heard of it.
      case 'cancelled':
        return this.events.emit({ type: 'run.cancelled', ...facts, reason: written.reason ?? '' });
      case 'fanned_out':
        return this.events.emit({ type: 'run.fannedOut', ...facts, pages: written.pages ?? 0, durationMs });
      case 'done':
        // The last of its pages had ended, and some of them dead.
        if (written.status === 'dead')
          return this.events.emit({ type: 'run.dead', ...facts, error: error ?? describeError(reason), reason });
        return this.events.emit({ type: 'run.completed', ...facts, durationMs });
      case 'queued':
        return this.events.emit({ type: 'run.released', ...facts });
      case 'failed':
        return this.events.emit({
          type: 'run.failed',
          ...facts,
          durationMs,
          error: end.error!,
          retryInMs: end.retryInMs!,
        });
      case 'dead':
        return this.events.emit({ type: 'run.dead', ...facts, error: end.error!, reason: end.reason! });
    }
  }
}
