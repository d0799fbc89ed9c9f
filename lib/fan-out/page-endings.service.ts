import { Injectable } from '@nestjs/common';
import { monotonicNow } from '../database/clock.js';
import { retry } from '../database/retry.js';
import { isRefusedData } from '../database/sql-state.js';
import { describeError } from '../errors/stored-error.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import type { InFlightRun } from '../runs/in-flight-runs.js';
import { DONE, plainEnd, type RunEnd } from '../runs/outcome.js';
import { AttemptEnds } from '../runs/run-endings.service.js';
import { type EndedRun, type OwnedPage, PageAttemptStore, type WrittenPageEnd } from './page.repository.js';
import type { PagePolicies } from '../jobs/known-jobs.js';

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
    private readonly ends: AttemptEnds,
    private readonly events: SchedulerEvents,
  ) {}

  /** @param thrown what the handler threw, in a list; an empty one when it returned */
  async write(run: InFlightRun, page: OwnedPage, policies: PagePolicies, thrown: readonly unknown[]): Promise<void> {
    // A page that was told that it is another's may still be this worker's, as far as `job_pages` knows: then the attempt
    // has failed.
    const handlerEnd = this.ends.read(run, run.leaseLost ? [run.leaseLost] : thrown);
    const end = this.ends.decide(run, handlerEnd, policies, page);
    run.ending = true;
    const written = await this.persist(page, end);
    run.settled = true;
    this.report(page, end, monotonicNow() - run.startedAt, written);
  }

  /** Ends a page whose last attempt was begun and never ended: whoever had it died, or was cut off. */
  async lost(page: OwnedPage): Promise<void> {
    const message = 'The process that worked the last attempt died, was frozen, or lost the queue.';
    const error = { name: 'WorkerLost', message, stack: null };
    const end: RunEnd = { ...DONE, status: 'dead', reason: 'attempts used up', error };
    this.report(page, end, 0, await this.persist(page, end));
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

  private persist(page: OwnedPage, end: RunEnd): Promise<WrittenPageEnd | null> {
    const giveUpAt = monotonicNow() + PATIENCE_MS;
    let accepted = end;
    return retry(
      () => this.store.end(page, accepted),
      (error, _failures, waitMs) => {
        // What the database does not accept is written in a form that it does; refused again, it would be for ever.
        if (isRefusedData(error) && accepted !== end) return false;
        if (isRefusedData(error)) accepted = plainEnd(end);
        return monotonicNow() + waitMs <= giveUpAt;
      },
    );
  }

  private report(
    { jobName, fireTime, page, attempt }: OwnedPage,
    end: RunEnd,
    durationMs: number,
    written: WrittenPageEnd | null,
  ): void {
    const facts = { jobName, fireTime, page, attempt };
    if (!written) return this.events.emit({ type: 'page.lost', ...facts });
    if (written.status === 'cancelled') {
      const reason = end.status === 'cancelled' ? end.reason! : (written.run?.reason ?? '');
      this.events.emit({ type: 'page.cancelled', ...facts, reason });
    } else if (end.status === 'done') this.events.emit({ type: 'page.completed', ...facts, durationMs });
    else if (end.status === 'failed')
      this.events.emit({ type: 'page.failed', ...facts, error: end.error!, retryInMs: end.retryInMs! });
    else if (end.status === 'dead')
      this.events.emit({ type: 'page.dead', ...facts, error: end.error!, reason: end.reason! });
    else this.events.emit({ type: 'page.released', ...facts });
    if (written.run) this.ended(written.run);
  }
}
