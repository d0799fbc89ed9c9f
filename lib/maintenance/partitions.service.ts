import { Injectable } from '@nestjs/common';
import { monthsAround } from '../domain/months.js';
import { describeError } from '../domain/stored-error.js';
import { SchedulerEvents } from '../events/scheduler-events.js';
import { DatabaseTime } from '../runtime/database-time.js';
import { Loop } from '../runtime/loop.js';
import { PartitionStore } from '../store/partition.store.js';

const DAY_MS = 86_400_000;
const MONTHS_AHEAD = 3;
/** What was missed at the end of last month still gets its row. */
const MONTHS_BACK = 1;
const MAX_RETRY_MS = 60_000;

/** Makes the partitions of the coming months, at start-up and daily, on whichever replica comes first. */
@Injectable()
export class PartitionsService {
  private readonly loop = new Loop(() => this.makeAhead(), {
    maxSleepMs: DAY_MS,
    maxRetryMs: MAX_RETRY_MS,
    onFailure: (error, failures) => this.events.emit({ type: 'loop.failed', loop: 'partitions', error: describeError(error), failures }),
    onRecovery: () => this.events.emit({ type: 'loop.recovered', loop: 'partitions' }),
  });

  constructor(
    private readonly store: PartitionStore,
    private readonly time: DatabaseTime,
    private readonly events: SchedulerEvents,
  ) {}

  start(): void {
    this.loop.start();
  }

  async stop(): Promise<void> {
    await this.loop.stop();
  }

  /** The first pass. A role that may make none starts all the same, as long as those of this month are there. */
  async makeReady(): Promise<void> {
    try {
      await this.makeAhead();
    } catch (error) {
      if (!(await this.store.areThere(new Date(this.time.now())))) throw error;
      this.events.emit({ type: 'loop.failed', loop: 'partitions', error: describeError(error), failures: 1 });
    }
  }

  /** One pass. @returns milliseconds to the next */
  async makeAhead(): Promise<number> {
    const names = await this.store.ensure(monthsAround(new Date(this.time.now()), MONTHS_BACK, MONTHS_AHEAD));
    if (names.length > 0) this.events.emit({ type: 'partition.created', names });
    return DAY_MS;
  }
}
