import { Injectable } from '@nestjs/common';
import { setTimeout as sleep } from 'node:timers/promises';
import { databaseTrouble } from '../domain/database-trouble.js';
import type { Outcome } from '../domain/outcome.js';
import { describeError } from '../domain/stored-error.js';
import { SchedulerEvents } from '../events/scheduler-events.js';
import { monotonicNow } from '../runtime/monotonic.js';
import { FanOutStore } from '../store/fan-out.store.js';
import { JobRunStore, type Ending, type WrittenEnd } from '../store/job-run.store.js';
import type { InFlightRun } from './in-flight-runs.js';

/** What was refused, when an attempt's end was. */
const WRITES = { done: 'completion', released: 'release', retry: 'failure', dead: 'failure', cancelled: 'cancellation' } as const;

const FIRST_RETRY_MS = 50;
const LONGEST_RETRY_MS = 2_000;

/**
 * Writes how attempts ended. A write that fails is tried again for as long as the lease holds: a success that could not
 * be recorded would be run again.
 */
@Injectable()
export class RunEndings {
  constructor(
    private readonly store: JobRunStore,
    private readonly fanOuts: FanOutStore,
    private readonly events: SchedulerEvents,
  ) {}

  async write(run: InFlightRun, outcome: Outcome, durationMs: number): Promise<void> {
    run.ending = true;
    const written = run.leaseLost ? null : await this.persist(run, outcome);
    run.settled = true;
    this.report(run, outcome, durationMs, written);
  }

  /** @returns how the attempt ended in the database; null when it is no longer ours to end */
  private async persist(run: InFlightRun, outcome: Outcome): Promise<WrittenEnd | null> {
    for (let wait = FIRST_RETRY_MS, failures = 1; ; wait = Math.min(wait * 2, LONGEST_RETRY_MS), failures++) {
      try {
        const written = outcome.kind === 'done' ? await this.complete(run) : await this.store.end(run.owned, endingOf(outcome));
        return written ?? (failures > 1 ? await this.store.endOf(run.owned) : null);
      } catch (error) {
        this.events.emit({ type: 'loop.failed', loop: `ending of ${run.id}`, error: describeError(error), failures, trouble: databaseTrouble(error) });
        if (run.leaseLost || monotonicNow() + wait >= run.leaseDeadline) return null;
        await sleep(wait, undefined, { ref: false });
      }
    }
  }

  /** An earlier attempt may have published pages, too. */
  private complete(run: InFlightRun): Promise<WrittenEnd | null> {
    return run.publishes || run.owned.attempt > 1 ? this.fanOuts.complete(run.owned) : this.store.complete(run.owned);
  }

  private report(run: InFlightRun, outcome: Outcome, durationMs: number, written: WrittenEnd | null): void {
    const { jobName, fireTime, attempt } = run.owned;
    const facts = { jobName, fireTime, attempt };
    if (!written) {
      this.events.emit({ type: 'run.refused', ...facts, write: WRITES[outcome.kind] });
      return;
    }
    // Somebody cancelled it, and this process had not heard of it.
    if (written.status === 'cancelled') return this.events.emit({ type: 'run.cancelled', ...facts, reason: written.reason ?? '' });
    if (written.status === 'fanned_out') return this.events.emit({ type: 'run.fannedOut', ...facts, pages: written.pages ?? 0, durationMs });
    if (written.status === 'dead' && outcome.kind === 'done') return this.events.emit({ type: 'run.dead', ...facts, error: written.error ?? describeError(written.reason), reason: written.reason ?? '' });
    switch (outcome.kind) {
      case 'done':
        return this.events.emit({ type: 'run.completed', ...facts, durationMs });
      case 'released':
        return this.events.emit({ type: 'run.released', ...facts });
      case 'cancelled':
        return this.events.emit({ type: 'run.cancelled', ...facts, reason: outcome.reason });
      case 'retry':
        return this.events.emit({ type: 'run.failed', ...facts, durationMs, error: outcome.error, retryInMs: outcome.delayMs });
      case 'dead':
        return this.events.emit({ type: 'run.dead', ...facts, error: outcome.error, reason: outcome.reason });
    }
  }
}

function endingOf(outcome: Exclude<Outcome, { kind: 'done' }>): Ending {
  switch (outcome.kind) {
    case 'released':
      return { status: 'queued', reason: 'released by a stopping instance', error: null, retryInMs: 0, releases: 1 };
    case 'cancelled':
      return { status: 'cancelled', reason: outcome.reason, error: null, retryInMs: null, releases: 0 };
    case 'retry':
      return { status: 'failed', reason: null, error: outcome.error, retryInMs: outcome.delayMs, releases: 0 };
    case 'dead':
      return { status: 'dead', reason: outcome.reason, error: outcome.error, retryInMs: null, releases: 0 };
    case 'cancelled':
      return { status: 'cancelled', reason: outcome.reason, error: null, retryInMs: null, releases: 0 };
  }
}
