import { Injectable } from '@nestjs/common';
import type { SchedulerEvent } from '../observe/scheduler-event.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { Duty } from '../observe/duty.js';
import { InDoubtStore } from '../operations/in-doubt.service.js';

/** A run may have been ended by a person, or by an instance that ended with it. */
const LOOK_AT_LEAST_EVERY_MS = 60_000;

const PARK_AT_ONCE = 100;

/**
 * Parks calls outside the database whose run has ended without their answer, so that a person hears of them. Looks when
 * a run of this instance ends that may have left some, and once a minute for those that nobody saw end.
 */
@Injectable()
export class CutOffCalls extends Duty {
  constructor(
    private readonly store: InDoubtStore,
    events: SchedulerEvents,
  ) {
    super(events, { name: 'watch over calls that were cut off', maxSleepMs: LOOK_AT_LEAST_EVERY_MS });
  }

  protected pass(): Promise<number> {
    return this.look();
  }

  override start(): void {
    super.start(LOOK_AT_LEAST_EVERY_MS);
  }

  /** A first attempt that returned has left none, but for a call whose failure its handler caught. */
  override hear(event: SchedulerEvent): void {
    if (
      event.type === 'run.dead' ||
      event.type === 'run.cancelled' ||
      (event.type === 'run.completed' && event.attempt > 1)
    )
      this.wake();
  }

  /** One pass. @returns milliseconds to the next */
  async look(): Promise<number> {
    const parked = await this.store.parkEnded(PARK_AT_ONCE);
    for (const effect of parked) this.events.emit({ type: 'effect.inDoubt', ...effect });
    return parked.length === PARK_AT_ONCE ? 0 : LOOK_AT_LEAST_EVERY_MS;
  }
}
