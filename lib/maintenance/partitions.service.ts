import { Inject, Injectable } from '@nestjs/common';
import { DatabaseTime } from '../database/clock.js';
import { PartitionStore } from '../database/partition.store.js';
import { type Forgotten, RetentionStore } from './retention.store.js';
import { ToldStore } from '../observe/alerts.service.js';
import { Duty, tellingOf } from '../observe/duty.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { type AgedPartition, isNothing, monthsToMake, overlap } from '../options/retention.js';
import { SCHEDULER_OPTIONS } from '../options/tokens.js';

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

/** A start has more urgent things to do. */
const FIRST_AFTER_MS = 60_000;
/** How soon a partition is looked at again that another replica was dropping, or somebody used. */
const LOOK_AGAIN_MS = 60_000;
const LONGEST_RETRY_MS = 600_000;

/**
 * Drops the partitions that are older than the retention, daily, on whichever replica comes first. Without one,
 * nothing.
 */
@Injectable()
export class RetentionService extends Duty {
  private readonly aborting = new AbortController();

  constructor(
    @Inject(SCHEDULER_OPTIONS) private readonly options: Pick<ResolvedSchedulerOptions, 'retentionMs'>,
    private readonly store: RetentionStore,
    private readonly told: ToldStore,
    events: SchedulerEvents,
  ) {
    super(events, { name: 'retention', maxSleepMs: DAY_MS, maxRetryMs: LONGEST_RETRY_MS });
  }

  protected pass(): Promise<number> {
    return this.forget();
  }

  override start(): void {
    if (this.options.retentionMs !== null) super.start(FIRST_AFTER_MS);
  }

  override async stop(): Promise<void> {
    this.aborting.abort();
    await super.stop();
  }

  /** One pass. What is kept keeps the pages and receipts of its months, too. @returns milliseconds to the next */
  async forget(): Promise<number> {
    if (this.options.retentionMs === null) return DAY_MS;
    const { partitions, olderThan, isBusy } = await this.store.aged(this.options.retentionMs);
    if (isBusy) return LOOK_AGAIN_MS;
    const kept: AgedPartition[] = [];
    const dropped: string[] = [];
    let dead = 0;
    let isLeft = false;
    try {
      for (const partition of partitions) {
        if (this.aborting.signal.aborted) break;
        if (kept.some((other) => overlap(other, partition))) continue;
        const forgotten = await this.store.forget(partition, olderThan, this.aborting.signal);
        if (forgotten.kind === 'busy') {
          // Another replica is at it, and of a table PostgreSQL detaches one partition at a time.
          isLeft = true;
          break;
        }
        if (forgotten.kind === 'dropped') {
          dropped.push(partition.name);
          dead += forgotten.dead;
        } else {
          kept.push(partition);
          isLeft ||= forgotten.kind !== 'kept';
          await this.tellKept(partition, forgotten);
        }
      }
    } finally {
      if (dropped.length > 0) this.events.emit({ type: 'partition.dropped', names: dropped, dead });
    }
    return isLeft ? LOOK_AGAIN_MS : DAY_MS;
  }

  private async tellKept({ name, until }: AgedPartition, forgotten: Forgotten): Promise<void> {
    const open = forgotten.kind === 'kept' ? forgotten.open : null;
    // Given back because the retention is longer by now, or left because this instance stops.
    if ((open && isNothing(open)) || this.aborting.signal.aborted) return;
    if (!(await this.told.first(`partition.kept ${name}`, { againAfterMs: DAY_MS, unlessSince: null }))) return;
    this.events.emit({ type: 'partition.kept', name, until: new Date(until), open });
  }
}
