import { Inject, Injectable } from '@nestjs/common';
import { SCHEDULER_OPTIONS } from '../distributed-scheduler.tokens.js';
import { InFlightRuns } from '../execution/in-flight-runs.js';
import { PagesInFlight } from '../execution/pages/pages-in-flight.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';

/** How long handlers get to end once their signals are aborted, in milliseconds. */
const AFTER_ABORT_MS = 2_000;

/** Lets running handlers end before the application goes. */
@Injectable()
export class Drain {
  constructor(
    @Inject(SCHEDULER_OPTIONS) private readonly options: ResolvedSchedulerOptions,
    private readonly runs: InFlightRuns,
    private readonly pages: PagesInFlight,
  ) {}

  /**
   * Waits for running handlers, aborts those that take too long and waits a little more.
   * @returns how many are still running and have not handed over: their runs stay owned until their leases end, their pages
   * until the queue delivers them again
   */
  async drain(): Promise<number> {
    if (await this.drained(this.options.shutdownTimeoutMs)) return 0;
    for (const run of [...this.runs.list(), ...this.pages.list()]) run.shutDown();
    await this.drained(AFTER_ABORT_MS);
    return this.runs.list().filter((run) => !run.handedOver).length + this.pages.size;
  }

  private async drained(withinMs: number): Promise<boolean> {
    const drained = await Promise.all([this.runs.drained(withinMs), this.pages.drained(withinMs)]);
    return drained.every((one) => one);
  }
}
