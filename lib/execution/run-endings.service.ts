import { Injectable } from '@nestjs/common';
import { setTimeout as sleep } from 'node:timers/promises';
import { databaseTrouble } from '../domain/database-trouble.js';
import type { Outcome } from '../domain/outcome.js';
import type { RunStatus } from '../domain/run.js';
import { describeError } from '../domain/stored-error.js';
import { SchedulerEvents } from '../events/scheduler-events.js';
import { monotonicNow } from '../runtime/monotonic.js';
import { JobRunStore, type Ending } from '../store/job-run.store.js';
import type { InFlightRun } from './in-flight-runs.js';

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
    private readonly events: SchedulerEvents,
  ) {}

  async write(run: InFlightRun, outcome: Outcome, durationMs: number): Promise<void> {
    run.ending = true;
    const accepted = !run.leaseLost && (await this.persist(run, outcome));
    run.settled = true;
    this.report(run, outcome, durationMs, accepted);
  }

  private async persist(run: InFlightRun, outcome: Outcome): Promise<boolean> {
    for (let wait = FIRST_RETRY_MS, failures = 1; ; wait = Math.min(wait * 2, LONGEST_RETRY_MS), failures++) {
      try {
        const accepted = outcome.kind === 'done' ? await this.store.complete(run.owned) : await this.store.end(run.owned, endingOf(outcome));
        return accepted || (failures > 1 && (await this.store.hasEnded(run.owned, statusOf(outcome))));
      } catch (error) {
        this.events.emit({ type: 'loop.failed', loop: `ending of ${run.id}`, error: describeError(error), failures, trouble: databaseTrouble(error) });
        if (run.leaseLost || monotonicNow() + wait >= run.leaseDeadline) return false;
        await sleep(wait, undefined, { ref: false });
      }
    }
  }

  private report(run: InFlightRun, outcome: Outcome, durationMs: number, accepted: boolean): void {
    const { jobName, fireTime, attempt } = run.owned;
    const facts = { jobName, fireTime, attempt };
    if (!accepted) {
      const write = outcome.kind === 'done' ? 'completion' : outcome.kind === 'released' ? 'release' : 'failure';
      this.events.emit({ type: 'run.refused', ...facts, write });
      return;
    }
    switch (outcome.kind) {
      case 'done':
        return this.events.emit({ type: 'run.completed', ...facts, durationMs });
      case 'released':
        return this.events.emit({ type: 'run.released', ...facts });
      case 'retry':
        return this.events.emit({ type: 'run.failed', ...facts, durationMs, error: outcome.error, retryInMs: outcome.delayMs });
      case 'dead':
        return this.events.emit({ type: 'run.dead', ...facts, error: outcome.error });
    }
  }
}

function statusOf(outcome: Outcome): RunStatus {
  return outcome.kind === 'done' ? 'done' : endingOf(outcome).status;
}

function endingOf(outcome: Exclude<Outcome, { kind: 'done' }>): Ending {
  switch (outcome.kind) {
    case 'released':
      return { status: 'queued', reason: 'released by a stopping instance', error: null, retryInMs: 0, releases: 1 };
    case 'retry':
      return { status: 'failed', reason: null, error: outcome.error, retryInMs: outcome.delayMs, releases: 0 };
    case 'dead':
      return { status: 'dead', reason: 'attempts used up', error: outcome.error, retryInMs: null, releases: 0 };
  }
}
