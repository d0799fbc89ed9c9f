import { Inject, Injectable } from '@nestjs/common';
import { SCHEDULER_OPTIONS } from '../options/tokens.js';
import { databaseTrouble } from '../errors/database-trouble.js';
import { monthsToMake } from '../options/retention.js';
import { describeError } from '../errors/stored-error.js';
import { loopListener } from '../observe/scheduler-events.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { DatabaseTime } from '../database/clock.js';
import { Loop } from '../database/loop.js';
import { PartitionStore } from '../database/partition.store.js';
import { ToldStore } from '../observe/told.store.js';

const DAY_MS = 86_400_000;
const MAX_RETRY_MS = 60_000;

/** Makes the partitions of the coming months, at start-up and daily, on whichever replica comes first. */
@Injectable()
export class PartitionsService {
  private readonly loop: Loop;

  constructor(
    @Inject(SCHEDULER_OPTIONS) private readonly options: ResolvedSchedulerOptions,
    private readonly store: PartitionStore,
    private readonly told: ToldStore,
    private readonly time: DatabaseTime,
    private readonly events: SchedulerEvents,
  ) {
    this.loop = new Loop(() => this.makeAhead(), {
      maxSleepMs: DAY_MS,
      maxRetryMs: MAX_RETRY_MS,
      ...loopListener(events, 'partitions'),
    });
  }

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
      this.events.emit({
        type: 'loop.failed',
        loop: 'partitions',
        error: describeError(error),
        failures: 1,
        trouble: databaseTrouble(error),
      });
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
