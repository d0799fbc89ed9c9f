import { Inject, Injectable } from '@nestjs/common';
import { INSTANCE_ID, SCHEDULER_OPTIONS } from '../options/tokens.js';
import { loopListener } from '../observe/scheduler-events.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { Cancellations } from './cancellations.js';
import { InFlightRuns } from './in-flight-runs.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { Loop } from '../database/loop.js';
import { CancelStore } from '../operations/cancels.service.js';

/**
 * Tells running handlers that their runs are cancelled while the instance stops: what told them before, the look for
 * changed schedules, has stopped by then. Asks nothing while no handler runs.
 */
@Injectable()
export class CancelWatch {
  private readonly loop: Loop;

  constructor(
    @Inject(SCHEDULER_OPTIONS) private readonly options: ResolvedSchedulerOptions,
    @Inject(INSTANCE_ID) private readonly instanceId: string,
    private readonly runs: InFlightRuns,
    private readonly store: CancelStore,
    private readonly cancellations: Cancellations,
    events: SchedulerEvents,
  ) {
    this.loop = new Loop(() => this.look(), {
      maxSleepMs: options.pollIntervalMs,
      ...loopListener(events, 'cancel watch'),
    });
  }

  start(): void {
    this.loop.start();
  }

  async stop(): Promise<void> {
    await this.loop.stop();
  }

  /** Somebody says that there is something to tell. */
  wake(): void {
    this.loop.wake();
  }

  /** One pass. @returns milliseconds to the next */
  async look(): Promise<number> {
    // None now: a claim under way may start one.
    if (this.runs.size > 0) this.cancellations.apply(await this.store.asked(this.instanceId, this.cancellations.flags));
    return this.options.pollIntervalMs;
  }
}
