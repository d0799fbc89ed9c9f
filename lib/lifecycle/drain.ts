import { Inject, Injectable } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { inCleanContext } from '../database/loop.js';
import { PagesInFlight } from '../fan-out/page-executor.service.js';
import { LONGEST_TIMER_MS } from '../options/duration.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { SCHEDULER_OPTIONS } from '../options/tokens.js';
import { InFlightRuns } from '../runs/in-flight-runs.js';

/**
 * The scheduler's timers keep no process alive. An application without a server (`createApplicationContext`) has
 * nothing else that would, and would end at once with all its jobs: it is kept until it closes. Tests are not.
 */
@Injectable()
export class KeepAlive {
  private timer: NodeJS.Timeout | null = null;

  constructor(private readonly http: HttpAdapterHost) {}

  hold(): void {
    const needed = !this.http.httpAdapter && process.env['NODE_ENV'] !== 'test';
    if (needed) this.timer = inCleanContext(() => setInterval(() => {}, LONGEST_TIMER_MS));
  }

  release(): void {
    if (this.timer) clearInterval(this.timer);
  }
}

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
   * @returns how many are still running and have not handed over: their runs stay owned until their leases end, their
   * pages until the queue delivers them again
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
