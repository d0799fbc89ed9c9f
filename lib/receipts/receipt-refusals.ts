import { Injectable } from '@nestjs/common';
import { LeaseLostError } from '../errors/run.errors.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import type { ReceiptKey } from './receipt.store.js';
import { InFlightRuns, type InFlightRun } from '../runs/in-flight-runs.js';

/** What follows when the database refuses a receipt. */
@Injectable()
export class ReceiptRefusals {
  constructor(
    private readonly runs: InFlightRuns,
    private readonly events: SchedulerEvents,
  ) {}

  /** The run is not this process' any more: its handler is told. @returns what is to be thrown */
  tell(run: InFlightRun, key: ReceiptKey): LeaseLostError {
    const { jobName, fireTime, attempt } = run.owned;
    this.events.emit({ type: 'receipt.refused', jobName, fireTime, attempt, ...key });
    this.runs.lose(run, 'taken over');
    return run.leaseLost ?? new LeaseLostError(run.owned, 'taken over');
  }
}
