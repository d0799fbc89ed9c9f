import { Inject, Injectable } from '@nestjs/common';
import { SCHEDULER_OPTIONS } from '../distributed-scheduler.tokens.js';
import { InFlightRuns } from '../execution/in-flight-runs.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';

/** How long handlers get to end once their signals are aborted, in milliseconds. */
const AFTER_ABORT_MS = 2_000;

/** Lets running handlers end before the application goes. */
@Injectable()
export class Drain {
  constructor(
    @Inject(SCHEDULER_OPTIONS) private readonly options: ResolvedSchedulerOptions,
    private readonly runs: InFlightRuns,
  ) {}

  /**
   * Waits for running handlers, aborts those that take too long and waits a little more.
   * @returns how many are still running and have not handed over: their runs stay owned until their leases end
   */
  async drain(): Promise<number> {
    if (await this.runs.drained(this.options.shutdownTimeoutMs)) return 0;
    for (const run of this.runs.list()) run.shutDown();
    await this.runs.drained(AFTER_ABORT_MS);
    return this.runs.list().filter((run) => !run.handedOver).length;
  }
}
