import type { SchedulerDatabase } from '../scheduler-database.js';

/** What a cancelled backfill leaves behind. */
export interface CancelledBackfill {
  readonly jobName: string;
  /** Runs that waited and will not start. */
  readonly cancelled: number;
  /** Occurrences that had a row before and are again what they were. */
  readonly putBack: number;
}

/** Ends backfills early. */
export class BackfillCancelStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /**
   * Nothing more of the backfill is queued or started; what runs goes on.
   * @returns null when there is none that is still active
   */
  async cancel(id: string, jobName: string, by: string | null, reason: string | null): Promise<CancelledBackfill | null> {
    const said = `backfill cancelled${by ? ` by ${by}` : ''}${reason ? `: ${reason}` : ''}`;
    const [ended] = await this.database.call<{ cancelled_runs: number; put_back: number }>('backfill_cancel_1', [id, jobName, by, reason, said]);
    return ended ? { jobName, cancelled: ended.cancelled_runs, putBack: ended.put_back } : null;
  }
}
