import { PartitionStore } from '../../lib/database/partition.store.js';
import type { SchedulerDatabase } from '../../lib/database/scheduler-database.js';

/**
 * Lets others do something each time after a store has read and planned, and before it writes: as when its process
 * stood still there.
 */
export class ComingBetween extends PartitionStore {
  /** How often something was planned. */
  plans = 0;

  /** @param come told how often something was planned */
  constructor(
    database: SchedulerDatabase,
    private readonly come: (plans: number) => Promise<unknown>,
  ) {
    super(database);
  }

  override async makingSure<Result>(instants: () => readonly Date[], work: () => Promise<Result>): Promise<Result> {
    await this.come(++this.plans);
    return super.makingSure(instants, work);
  }
}
