import { Injectable } from '@nestjs/common';
import {
  isVerdict,
  readFailure,
  decideOutcome,
  type HandlerEnd,
  type Outcome,
  TimeoutError,
  plainEnding,
} from '../runs/outcome.js';
import { describeError } from '../errors/stored-error.js';
import { CancelledError } from '../errors/run.errors.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import type { PagePolicies } from '../jobs/known-jobs.js';
import { DatabaseTime, monotonicNow } from '../database/clock.js';
import { retry } from '../database/retry.js';
import { isRefusedData } from '../database/sql-state.js';
import {
  PageAttemptStore,
  type EndedRun,
  type OwnedPage,
  type PageEnding,
  type WrittenPageEnd,
} from './page.repository.js';
import type { InFlightRun } from '../runs/in-flight-runs.js';

/**
 * How long a page's end is tried to be written, in milliseconds; after that the delivery is made again, and receipts
 * hold.
 */
const PATIENCE_MS = 60_000;

/** Decides how a page's attempt ended and writes it; tells of the end of its occurrence, too. */
@Injectable()
export class PageEndings {
  constructor(
    private readonly store: PageAttemptStore,
    private readonly time: DatabaseTime,
    private readonly events: SchedulerEvents,
  ) {}

  /** @param thrown what the handler threw, in a list; an empty one when it returned */
  async write(run: InFlightRun, page: OwnedPage, policies: PagePolicies, thrown: readonly unknown[]): Promise<void> {
    const outcome = this.decide(this.endOf(run, thrown), run, page, policies);
    run.ending = true;
    const written = await this.persist(page, endingOf(outcome));
    run.settled = true;
    this.report(page, outcome, monotonicNow() - run.startedAt, written);
  }

  /** Ends a page whose last attempt was begun and never ended: whoever had it died, or was cut off. */
  async lost(page: OwnedPage): Promise<void> {
    const message = 'The process that worked the last attempt died, was frozen, or lost the queue.';
    const outcome: Outcome = {
      kind: 'dead',
      reason: 'attempts used up',
      error: { name: 'WorkerLost', message, stack: null },
    };
    this.report(page, outcome, 0, await this.persist(page, endingOf(outcome)));
  }

  /** Tells of an occurrence that has ended. */
  ended({ jobName, fireTime, attempt, status, reason, error, tookMs }: EndedRun): void {
    const facts = { jobName, fireTime, attempt };
    if (status === 'done') return this.events.emit({ type: 'run.completed', ...facts, durationMs: tookMs });
    if (status === 'cancelled') return this.events.emit({ type: 'run.cancelled', ...facts, reason: reason ?? '' });
    return this.events.emit({
      type: 'run.dead',
      ...facts,
      error: error ?? describeError(reason),
      reason: reason ?? '',
    });
  }

  /**
   * A page that was told that it is another's may still be this worker's, as far as `job_pages` knows: then the attempt
   * has failed.
   */
  private endOf(run: InFlightRun, thrown: readonly unknown[]): HandlerEnd {
    const { stopReason, leaseLost } = run;
    if (leaseLost) return { kind: 'failed', ...readFailure(leaseLost, null, this.time.now()) };
    if (stopReason instanceof CancelledError) return { kind: 'cancelled', reason: stopReason.reason };
    if (stopReason instanceof TimeoutError)
      return this.failed(run, thrown.length > 0 && isVerdict(thrown[0]) ? thrown[0] : stopReason);
    if (stopReason) return { kind: 'stopped' };
    return thrown.length === 0 ? { kind: 'returned' } : this.failed(run, thrown[0]);
  }

  private failed(run: InFlightRun, thrown: unknown): HandlerEnd {
    const failure = readFailure(thrown, run.job.retryable, this.time.now());
    if (failure.complaint) this.complain(run, 'retryable', failure.complaint);
    return { kind: 'failed', ...failure };
  }

  private decide(end: HandlerEnd, run: InFlightRun, page: OwnedPage, policies: PagePolicies): Outcome {
    try {
      return decideOutcome(end, policies, page.attempt - page.releases, Math.random());
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

  private complain(run: InFlightRun, option: 'retryable' | 'backoff', error: ReturnType<typeof describeError>): void {
    const { jobName, fireTime, attempt } = run.owned;
    this.events.emit({ type: 'policy.failed', jobName, fireTime, attempt, option, error });
  }

  private persist(page: OwnedPage, ending: PageEnding): Promise<WrittenPageEnd | null> {
    const giveUpAt = monotonicNow() + PATIENCE_MS;
    let accepted = ending;
    return retry(
      () => this.store.end(page, accepted),
      (error, _failures, waitMs) => {
        // What the database does not accept is written in a form that it does; refused again, it would be for ever.
        if (isRefusedData(error) && accepted !== ending) return false;
        if (isRefusedData(error)) accepted = plainEnding(ending);
        return monotonicNow() + waitMs <= giveUpAt;
      },
    );
  }

  private report(
    { jobName, fireTime, page, attempt }: OwnedPage,
    outcome: Outcome,
    durationMs: number,
    written: WrittenPageEnd | null,
  ): void {
    const facts = { jobName, fireTime, page, attempt };
    if (!written) return this.events.emit({ type: 'page.lost', ...facts });
    if (written.status === 'cancelled')
      this.events.emit({
        type: 'page.cancelled',
        ...facts,
        reason: outcome.kind === 'cancelled' ? outcome.reason : (written.run?.reason ?? ''),
      });
    else if (outcome.kind === 'done') this.events.emit({ type: 'page.completed', ...facts, durationMs });
    else if (outcome.kind === 'retry')
      this.events.emit({ type: 'page.failed', ...facts, error: outcome.error, retryInMs: outcome.delayMs });
    else if (outcome.kind === 'dead')
      this.events.emit({ type: 'page.dead', ...facts, error: outcome.error, reason: outcome.reason });
    else this.events.emit({ type: 'page.released', ...facts });
    if (written.run) this.ended(written.run);
  }
}

function endingOf(outcome: Outcome): PageEnding {
  switch (outcome.kind) {
    case 'done':
      return { status: 'done', error: null, reason: null, retryInMs: null, releases: 0 };
    case 'retry':
      return {
        status: 'failed',
        error: outcome.error,
        reason: null,
        retryInMs: Math.round(outcome.delayMs),
        releases: 0,
      };
    case 'dead':
      return { status: 'dead', error: outcome.error, reason: outcome.reason, retryInMs: null, releases: 0 };
    case 'released':
      return { status: 'queued', error: null, reason: 'released by a stopping instance', retryInMs: 0, releases: 1 };
    case 'cancelled':
      return { status: 'cancelled', error: null, reason: outcome.reason, retryInMs: null, releases: 0 };
  }
}
