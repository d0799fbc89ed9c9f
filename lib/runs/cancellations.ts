import { Injectable } from '@nestjs/common';
import { runId } from '../options/run.js';
import type { AskedToStop } from './asked-to-stop.js';
import { FlagAnswers } from './flag-answers.js';
import { InFlightRuns, type InFlightRun } from './in-flight-runs.js';

/**
 * Tells the handlers of this process that their runs are cancelled: by an operator, or because their flag was turned
 * off.
 */
@Injectable()
export class Cancellations {
  private asking = false;

  constructor(
    private readonly runs: InFlightRuns,
    private readonly answers: FlagAnswers,
  ) {}

  /** The flags that, turned off, cancel a run that is under way here. */
  get flags(): string[] {
    return [...new Set(this.stoppable.map(({ job }) => job.flag!))];
  }

  /** `flagsOff` is what the table has as off: the provider is asked besides, and not waited for. */
  apply({ cancels, flagsOff }: AskedToStop): void {
    for (const request of cancels) this.runs.get(runId(request), request.attempt)?.cancel(request.reason);
    this.cancelRunsOf(new Map(flagsOff.map((flag) => [flag, `flag off: ${flag}`])));
    if (this.asking || this.flags.length === 0) return;
    this.asking = true;
    void this.answers
      .off(this.flags)
      .then((off) => this.cancelRunsOf(off))
      .finally(() => (this.asking = false));
  }

  private cancelRunsOf(off: ReadonlyMap<string | null, string>): void {
    for (const run of this.stoppable) {
      const reason = off.get(run.job.flag);
      if (reason !== undefined) run.cancel(reason);
    }
  }

  private get stoppable(): InFlightRun[] {
    return this.runs.list().filter(({ job: { flag, flagOff } }) => flag !== null && flagOff === 'cancel');
  }
}
