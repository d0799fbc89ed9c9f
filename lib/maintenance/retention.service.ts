import { Inject, Injectable } from '@nestjs/common';
import { SCHEDULER_OPTIONS } from '../options/tokens.js';
import { isNothing, overlap, type AgedPartition } from '../options/retention.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { Duty } from '../observe/duty.js';
import { ToldStore } from '../observe/told.store.js';
import { RetentionStore, type Forgotten } from './retention.store.js';

/** A start has more urgent things to do. */
const FIRST_AFTER_MS = 60_000;
const DAY_MS = 86_400_000;
/** How soon a partition is looked at again that another replica was dropping, or somebody used. */
const LOOK_AGAIN_MS = 60_000;
const MAX_RETRY_MS = 600_000;

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
    super(events, { name: 'retention', maxSleepMs: DAY_MS, maxRetryMs: MAX_RETRY_MS });
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
