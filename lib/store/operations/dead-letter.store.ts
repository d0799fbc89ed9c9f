import type { RunKey, RunStatus } from '../../domain/runs/run.js';
import { isRemoved } from '../jobs/is-removed.js';
import { leftBackfill } from '../backfills/left-backfill.js';
import { DIED_OF_PAGES, reopenPages } from '../pages/page-reopening.js';
import type { Query } from '../connection/query.js';
import { recordAction } from './record-action.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import { inTransaction } from '../connection/transaction.js';
import { wakingUp } from '../wake-up.js';

/** Who, and why. */
export interface Actor {
  readonly by: string;
  readonly reason: string | null;
}

/** What became of one run: how it was, and whether it was changed. */
export interface ChangedRun {
  readonly changed: boolean;
  readonly status: RunStatus;
  /** How many occurrences its row stands for, where that is a gap. */
  readonly gapCount: number | null;
  /** Its job was taken out: nobody would start it. */
  readonly removed: boolean;
}

/**
 * The statements that begin ended runs again, or end them for good. The status is judged in the update itself, on the locked
 * row: of two people, or a person and a claim, the first wins.
 */
export class DeadLetterStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /**
   * Makes a run claimable now. What it has of attempts does not count any more, its key and its receipts stay. It leaves a
   * backfill that is active.
   * @param allowed the statuses it may have
   * @returns null when there is no such run
   */
  async replay(key: RunKey, allowed: readonly RunStatus[], { by, reason }: Actor): Promise<ChangedRun | null> {
    const { tables } = this.database;
    return this.changeOne(
      key,
      { action: 'replay', by, reason },
      `update ${tables.jobRuns} run
       set    status = case when ${DIED_OF_PAGES} then 'fanned_out' when status in ('failed', 'orphaned') then status else 'queued' end,
              reason = 'replayed by ' || $4::text || ' (was ' || status || coalesce(': ' || reason, '') || ')',
              requested_by = $4,
              next_attempt_at = case when not ${DIED_OF_PAGES} then clock_timestamp() end,
              lease_until = case when not ${DIED_OF_PAGES} then lease_until end,
              finished_at = case when not ${DIED_OF_PAGES} then finished_at end,
              error = case when not ${DIED_OF_PAGES} then error end,
              backfill_id = ${leftBackfill(tables, 'run')},
              -- What is done begins anew; what is not resumes.
              checkpoint = case status when 'done' then null else checkpoint end,
              releases = attempt,
              cancel_requested_at = null,
              cancel_reason = null
       where  job_name = $1
       and    fire_time = $2
       and    status = any ($3::text[])
       and    coalesce(gap_count, 1) = 1
       and    not ${isRemoved(tables, '$1')}
       returning ${wakingUp(tables, 'runs')}`,
      [allowed, by],
      (query) => reopenPages(query, tables, key, by),
    );
  }

  /** Ends a run that waits for a person, or for its next attempt. @returns null when there is no such run */
  async discard(key: RunKey, allowed: readonly RunStatus[], { by, reason }: Actor): Promise<ChangedRun | null> {
    const { tables } = this.database;
    return this.changeOne(
      key,
      { action: 'discard', by, reason },
      `update ${tables.jobRuns}
       set    status = 'cancelled',
              reason = 'discarded: ' || $4::text,
              next_attempt_at = null
       where  job_name = $1
       and    fire_time = $2
       and    status = any ($3::text[])
       returning 1`,
      [allowed, reason],
    );
  }

  private changeOne(
    { jobName, fireTime }: RunKey,
    action: Actor & { readonly action: string },
    update: string,
    parameters: readonly unknown[],
    besides: (query: Query) => Promise<unknown> = async () => undefined,
  ): Promise<ChangedRun | null> {
    const { coordination, tables } = this.database;
    return inTransaction(coordination, async (query) => {
      const key = [jobName, fireTime.toISOString()];
      const [was] = await query<Omit<ChangedRun, 'changed'>>(
        `select status, gap_count as "gapCount", ${isRemoved(tables, '$1')} as removed
         from   ${tables.jobRuns}
         where  job_name = $1
         and    fire_time = $2
         for    update`,
        key,
      );
      if (!was) return null;
      const changed = (await query(update, [...key, ...parameters])).length === 1;
      if (changed) await besides(query);
      if (changed) await recordAction(query, tables, { ...action, jobName, fireTime, details: { was: was.status } });
      return { ...was, changed };
    });
  }
}
