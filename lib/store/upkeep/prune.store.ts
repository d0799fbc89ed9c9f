import type { SchedulerDatabase } from '../scheduler-database.js';

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
