import { jobLock } from '../runs/job-locks.js';
import type { Query } from '../connection/query.js';
import { NOBODY_NAMED, recordAction } from '../operations/record-action.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import { inTransaction, lockName } from '../connection/transaction.js';

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
   * Nothing more of the backfill is queued or started; what runs goes on. Behind the job's lock, so that a claim under way
   * has either started a run or finds it cancelled.
   * @returns null when there is none that is still active
   */
  async cancel(id: string, jobName: string, by: string | null, reason: string | null): Promise<CancelledBackfill | null> {
    const { tables } = this.database;
    return inTransaction(this.database.coordination, async (query) => {
      await lockName(query, jobLock(tables.schema, jobName));
      const cancelled = await query(
        `update ${tables.jobBackfills}
         set    cancelled_at = clock_timestamp(),
                cancelled_by = $2,
                cancelled_reason = $3
         where  id = $1
         and    finished_at is null
         and    cancelled_at is null
         returning 1`,
        [id, by, reason],
      );
      if (cancelled.length === 0) return null;
      const putBack = await this.putBack(query, id);
      await recordAction(query, tables, { action: 'cancel-backfill', jobName, by: by ?? NOBODY_NAMED, reason, details: { backfill: id } });
      return { jobName, putBack, cancelled: await this.cancelRuns(query, id, `backfill cancelled${by ? ` by ${by}` : ''}${reason ? `: ${reason}` : ''}`) };
    });
  }

  /** Occurrences whose own story was set aside and that were not started since. */
  private async putBack(query: Query, id: string): Promise<number> {
    const { jobRuns, jobBackfills } = this.database.tables;
    const rows = await query(
      `update ${jobRuns} run
       set    status = was.status,
              trigger = was.trigger,
              reason = was.reason,
              error = was.error,
              claimed_by = was."claimedBy",
              started_at = was."startedAt",
              finished_at = was."finishedAt",
              pages = was.pages,
              next_attempt_at = null,
              backfill_id = null,
              beside = false,
              earlier_attempts = run.earlier_attempts - -1
       from   ${jobRuns} queued
       cross  join lateral jsonb_to_record(queued.earlier_attempts -> -1)
                as was (status text, trigger text, reason text, error jsonb, pages integer, "claimedBy" text, "startedAt" timestamptz, "finishedAt" timestamptz)
       where  queued.backfill_id = $1
       and    queued.status = 'queued'
       and    queued.claimed_by is null
       and    was.trigger is not null
       and    run.job_name = queued.job_name
       and    run.fire_time = queued.fire_time
       returning 1`,
      [id],
    );
    await query(`update ${jobBackfills} set fed = fed - $2 where id = $1`, [id, rows.length]);
    return rows.length;
  }

  private async cancelRuns(query: Query, id: string, reason: string): Promise<number> {
    const rows = await query(
      `update ${this.database.tables.jobRuns}
       set    status = 'cancelled',
              reason = $2,
              finished_at = clock_timestamp(),
              next_attempt_at = null
       where  backfill_id = $1
       and    status in ('queued', 'failed', 'orphaned')
       returning 1`,
      [id, reason],
    );
    return rows.length;
  }
}
