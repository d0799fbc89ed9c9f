import { Inject, Injectable } from '@nestjs/common';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import { Duty } from '../observe/duty.js';
import type { SchedulerEvent } from '../observe/scheduler-event.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { InDoubtStore } from '../operations/in-doubt.service.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { SCHEDULER_OPTIONS } from '../options/tokens.js';

/** How long things are kept, in milliseconds. */
export interface Kept {
  readonly actionsMs: number;
  readonly alertsMs: number;
}

/** Forgets what operators did, which backfills there were and what was told, once that is old enough. */
export class PruneStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /**
   * One batch of each, the oldest first; one replica at a time, the others find nothing to do.
   * @returns true when there may be more
   */
  async prune({ actionsMs, alertsMs }: Kept, limit: number): Promise<boolean> {
    const [pruned] = await this.database.call<{ prune_1: boolean }>('prune_1', [actionsMs, alertsMs, limit]);
    return pruned!.prune_1;
  }
}

/** A start has more urgent things to do. */
const FIRST_AFTER_MS = 300_000;
const EVERY_MS = 6 * 3_600_000;
const NEXT_BATCH_AFTER_MS = 1_000;
const MAX_RETRY_MS = 60_000;
const AT_ONCE = 1_000;

/** What was told is asked for again within `repeatAfter`; a month besides is for people. */
const ALERTS_KEPT_MS = 30 * 86_400_000;

/**
 * Forgets what operators did and what was told, when it is old: a few times a day, in batches, on whichever replica
 * comes first.
 */
@Injectable()
export class PruningService extends Duty {
  constructor(
    @Inject(SCHEDULER_OPTIONS) private readonly options: Pick<ResolvedSchedulerOptions, 'keepActionsMs' | 'alerts'>,
    private readonly store: PruneStore,
    events: SchedulerEvents,
  ) {
    super(events, { name: 'pruning', maxSleepMs: EVERY_MS, maxRetryMs: MAX_RETRY_MS });
  }

  protected pass(): Promise<number> {
    return this.prune();
  }

  override start(): void {
    super.start(FIRST_AFTER_MS);
  }

  /** One pass. @returns milliseconds to the next */
  async prune(): Promise<number> {
    const { keepActionsMs, alerts } = this.options;
    const kept = { actionsMs: keepActionsMs, alertsMs: ALERTS_KEPT_MS + alerts.repeatAfterMs };
    return (await this.store.prune(kept, AT_ONCE)) ? NEXT_BATCH_AFTER_MS : EVERY_MS;
  }
}

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
