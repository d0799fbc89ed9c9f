import type { Schedule } from '../../domain/schedule/schedule.js';
import { UnknownJobError } from '../../errors/unknown-job.error.js';
import { operatedJob, type ReadOperator } from './operated-job.js';
import type { PartitionStore } from '../upkeep/partition.store.js';
import { recordAction } from './record-action.js';
import { holdJobs, replacingSchedules } from '../jobs/replaced-schedules.js';
import { changingSchedules } from '../jobs/schedule-changes.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import type { StoredJob } from '../jobs/stored-job.js';
import { wakeUp } from '../wake-up.js';

/** Puts an operator's schedule in place of the one that the code declares. Every replica follows, and no deploy changes it. */
export class OverrideStore {
  constructor(
    private readonly database: SchedulerDatabase,
    private readonly partitions: PartitionStore,
  ) {}

  /**
   * What is decided stays decided: another expression or zone holds from now on.
   * @param change gets the job as it is
   */
  async override(jobName: string, change: (stored: StoredJob) => Schedule, { by, reason }: ReadOperator): Promise<void> {
    const { database, partitions } = this;
    const { tables } = database;
    await replacingSchedules(database, partitions, async (query, revision, replace) => {
      await holdJobs(query, database, [jobName]);
      const stored = await operatedJob(query, tables, jobName);
      if (stored.runTime) throw new UnknownJobError(jobName, 'made at run time');
      const { expression, timeZone } = change(stored);
      const edited = stored.cron !== expression || stored.timeZone !== timeZone;
      if (edited) await replace([stored]);
      await query(
        `update ${tables.jobSchedule}
         set    cron = $2,
                time_zone = $3,
                overridden_at = clock_timestamp(),
                overridden_by = $4,
                overridden_reason = $5,
                revision = $6,
                effective_from = case when $7 then clock_timestamp() else effective_from end,
                decided_until = case when $7 then clock_timestamp() else decided_until end
         where  name = $1`,
        [jobName, expression, timeZone, by, reason, revision, edited],
      );
      const details = { cron: expression, timeZone, was: { cron: stored.cron, timeZone: stored.timeZone } };
      await recordAction(query, tables, { action: 'override', jobName, by, reason, details });
      await wakeUp(query, tables, 'jobs');
    });
  }

  /**
   * From now on declarations count again: the first live instance that declares another schedule takes over.
   * @returns false when there was no override
   */
  async clear(jobName: string, { by, reason }: ReadOperator): Promise<boolean> {
    const { tables } = this.database;
    return changingSchedules(this.database, async (query, revision) => {
      await operatedJob(query, tables, jobName);
      const cleared = await query(
        `update ${tables.jobSchedule}
         set    overridden_at = null,
                overridden_by = null,
                overridden_reason = null,
                revision = $2
         where  name = $1
         and    overridden_at is not null
         returning 1`,
        [jobName, revision],
      );
      await recordAction(query, tables, { action: 'clear-override', jobName, by, reason });
      await wakeUp(query, tables, 'jobs');
      return cleared.length === 1;
    });
  }
}
