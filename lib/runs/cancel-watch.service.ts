import { Inject, Injectable } from '@nestjs/common';
import { INSTANCE_ID, SCHEDULER_OPTIONS } from '../options/tokens.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { Cancellations } from './cancellations.js';
import { InFlightRuns } from './in-flight-runs.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import type { WakeUp } from '../database/wake-up.js';
import { Duty } from '../observe/duty.js';
import { CancelStore } from '../operations/cancels.service.js';

/**
 * Tells running handlers that their runs are cancelled while the instance stops: what told them before, the look for
 * changed schedules, has stopped by then. Asks nothing while no handler runs.
 */
@Injectable()
export class CancelWatch extends Duty {
  override readonly goesOn = 'while draining';

  constructor(
    @Inject(SCHEDULER_OPTIONS) private readonly options: ResolvedSchedulerOptions,
    @Inject(INSTANCE_ID) private readonly instanceId: string,
    private readonly runs: InFlightRuns,
    private readonly store: CancelStore,
    private readonly cancellations: Cancellations,
    events: SchedulerEvents,
  ) {
    super(events, { name: 'cancel watch', maxSleepMs: options.pollIntervalMs });
  }

  protected pass(): Promise<number> {
    return this.look();
  }

  override hearOthers(wakeUp: WakeUp): void {
    if (wakeUp !== 'runs') this.wake();
  }

  /** One pass. @returns milliseconds to the next */
  async look(): Promise<number> {
    // None now: a claim under way may start one.
    if (this.runs.size > 0) this.cancellations.apply(await this.store.asked(this.instanceId, this.cancellations.flags));
    return this.options.pollIntervalMs;
  }
}
