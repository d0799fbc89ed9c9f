import type { RunKey } from '../domain/run.js';
import type { LeaseLoss } from '../events/scheduler-event.js';
import { runId } from '../domain/run.js';
import { SchedulerError } from './scheduler.error.js';

/** This process no longer owns the run: its signal is aborted, and what it still writes is refused. */
export class LeaseLostError extends SchedulerError {
  constructor(run: RunKey & { readonly attempt: number }, readonly loss: LeaseLoss) {
    const why = loss === 'expired' ? 'it could not be renewed in time' : 'another attempt has taken over';
    super(`The lease of ${runId(run)} (attempt ${run.attempt}) is lost: ${why}.`);
  }
}
