import { databaseTrouble } from '../errors/database-trouble.js';
import { describeError } from '../errors/stored-error.js';
import { Loop, type LoopOptions } from '../database/loop.js';
import type { WakeUp } from '../database/tables.js';
import type { SchedulerEvent } from './scheduler-event.js';
import type { SchedulerEvents } from './scheduler-events.js';

/** When a duty runs, and under which name it is told of. */
export interface DutyOptions {
  /** In events and messages. Null: its failures are told by another duty, which fails with it. */
  readonly name: string | null;
  /** Longest sleep between two passes, in milliseconds. */
  readonly maxSleepMs: number;
  /** Longest wait after failed passes, in milliseconds. @default a second, at most maxSleepMs */
  readonly maxRetryMs?: number;
}

/**
 * Periodic work of an instance. `Duties` starts, wakes and stops all of them, in the order of one list. A pass that
 * fails is told as `loop.failed` and tried again; only `stop()` ends a duty.
 */
export abstract class Duty {
  private readonly loop: Loop;
  /** From when to when: the instance claims, then drains, then ends. */
  readonly goesOn: 'while claiming' | 'while draining' | 'until the end' = 'while claiming';
  /** The duty has been asked to stop: a long pass ends with the item in hand. */
  protected stopping = false;

  constructor(
    protected readonly events: SchedulerEvents,
    { name, maxSleepMs, maxRetryMs }: DutyOptions,
  ) {
    this.loop = new Loop(() => this.pass(), {
      maxSleepMs,
      ...(maxRetryMs !== undefined && { maxRetryMs }),
      ...(name === null ? { onFailure: () => {} } : tellingOf(name, events)),
    });
  }

  /** What the first claim needs of it. What fails may be tried again. */
  async makeReady(): Promise<void> {}

  /** Lets go of what it needed until the last handler had ended. */
  async end(): Promise<void> {}

  /** One pass. @returns milliseconds to the next */
  protected abstract pass(): Promise<number>;

  /** @param firstInMs when the first pass is due, in milliseconds, unless something wakes the duty before */
  start(firstInMs = 0): void {
    this.stopping = false;
    this.loop.start(firstInMs);
  }

  /** Starts no further pass and waits for the one under way. */
  async stop(): Promise<void> {
    this.stopping = true;
    await this.loop.stop();
  }

  /** Runs a pass now, or once more when the one under way has ended. */
  wake(): void {
    this.loop.wake();
  }

  /** Runs a pass at the latest this many milliseconds from now. */
  wakeWithin(millis: number): void {
    this.loop.wakeWithin(millis);
  }

  /** Every event of this instance, for the duties that an event gives something to do. */
  hear(_event: SchedulerEvent): void {}

  /** What another instance has made due. */
  hearOthers(_wakeUp: WakeUp): void {}

  /** Wake-ups of other instances can no longer be heard, or are: the next pass may be due earlier than was planned. */
  lookAtNextPoll(): void {}
}

/** Tells when the passes of a loop fail and when they work again. */
export function tellingOf(
  loop: string,
  events: SchedulerEvents,
): Required<Pick<LoopOptions, 'onFailure' | 'onRecovery'>> {
  return {
    onFailure: (error, failures) => {
      const trouble = databaseTrouble(error);
      events.emit({ type: 'loop.failed', loop, error: describeError(error), failures, trouble });
    },
    onRecovery: () => events.emit({ type: 'loop.recovered', loop }),
  };
}
