import { Inject, Injectable } from '@nestjs/common';
import { SCHEDULER_OPTIONS } from '../options/tokens.js';
import { monthsToMake } from '../options/retention.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { DatabaseTime } from '../database/clock.js';
import { Duty, tellingOf } from '../observe/duty.js';
import { PartitionStore } from '../database/partition.store.js';
import { ToldStore } from '../observe/told.store.js';

const DAY_MS = 86_400_000;
const MAX_RETRY_MS = 60_000;

/** Makes the partitions of the coming months, at start-up and daily, on whichever replica comes first. */
@Injectable()
export class PartitionsService extends Duty {
  constructor(
    @Inject(SCHEDULER_OPTIONS) private readonly options: ResolvedSchedulerOptions,
    private readonly store: PartitionStore,
    private readonly told: ToldStore,
    private readonly time: DatabaseTime,
    events: SchedulerEvents,
  ) {
    super(events, { name: 'partitions', maxSleepMs: DAY_MS, maxRetryMs: MAX_RETRY_MS });
  }

  protected pass(): Promise<number> {
    return this.makeAhead();
  }

  /** The first pass. A role that may make none starts all the same, as long as those of this month are there. */
  override async makeReady(): Promise<void> {
    try {
      await this.makeAhead();
    } catch (error) {
      if (!(await this.store.areThere(new Date(this.time.now())))) throw error;
      tellingOf('partitions', this.events).onFailure(error, 1);
    }
  }

  /** One pass. @returns milliseconds to the next */
  async makeAhead(): Promise<number> {
    const { over, toCome } = monthsToMake(this.time.now(), this.options.retentionMs);
    const names = await this.store.ensure(toCome, over).catch(async (error: unknown) => {
      await this.warnOfTheEnd().catch(() => {});
      throw error;
    });
    if (names.length > 0) this.events.emit({ type: 'partition.created', names });
    return DAY_MS;
  }

  /** What is due after the last partition's end has no row, so that it does not run. */
  private async warnOfTheEnd(): Promise<void> {
    const now = this.time.now();
    const until = await this.store.end(new Date(now));
    const { partitionsEndWithinMs, repeatAfterMs } = this.options.alerts;
    if (until.getTime() - now > partitionsEndWithinMs) return;
    if (!(await this.told.first('partitions.ending', { againAfterMs: repeatAfterMs, unlessSince: null }))) return;
    this.events.emit({
      type: 'partitions.ending',
      until,
      daysLeft: Math.max(0, Math.floor((until.getTime() - now) / DAY_MS)),
    });
  }
}
