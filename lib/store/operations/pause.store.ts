import { InvalidOptionsError } from '../../errors/invalid-options.error.js';
import { operatedJob, type ReadOperator } from './operated-job.js';
import { recordAction } from './record-action.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import { inTransaction } from '../connection/transaction.js';
import { wakeUp } from '../wake-up.js';

/** A pause as it is stored. `until` is null for one that lasts until somebody resumes the job. */
export interface Pause {
  readonly since: Date;
  readonly until: Date | null;
}

/** Holds jobs back, and lets them go on. The table's own trigger keeps what a hold covered, once it is over. */
export class PauseStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /** A job that is paused gets another pause, from now on; the first is kept as an earlier one. */
  async pause(jobName: string, until: Date | null, { by, reason }: ReadOperator): Promise<Pause> {
    const { coordination, tables } = this.database;
    return inTransaction(coordination, async (query) => {
      await operatedJob(query, tables, jobName);
      const [pause] = await query<Pause>(
        `update ${tables.jobSchedule}
         set    paused_at = clock_timestamp(),
                paused_until = $2,
                paused_by = $3,
                paused_reason = $4
         where  name = $1
         and   ($2::timestamptz is null or $2 > clock_timestamp())
         returning paused_at as since, paused_until as until`,
        [jobName, until?.toISOString() ?? null, by, reason],
      );
      if (!pause) throw new InvalidOptionsError([`SchedulerService.pause: until: ${until!.toISOString()} is over already`]);
      await recordAction(query, tables, { action: 'pause', jobName, by, reason, details: until && { until: until.toISOString() } });
      return pause;
    });
  }

  /** @returns false when it was not paused */
  async resume(jobName: string, { by, reason }: ReadOperator): Promise<boolean> {
    const { coordination, tables } = this.database;
    return inTransaction(coordination, async (query) => {
      await operatedJob(query, tables, jobName);
      const resumed = await query(
        `update ${tables.jobSchedule}
         set    paused_at = null,
                paused_until = null,
                paused_by = null,
                paused_reason = null
         where  name = $1
         and    paused_at is not null
         returning 1`,
        [jobName],
      );
      await recordAction(query, tables, { action: 'resume', jobName, by, reason });
      await wakeUp(query, tables, 'runs');
      return resumed.length === 1;
    });
  }

  /** @returns false when it was so already */
  async setEnabled(jobName: string, enabled: boolean, { by, reason }: ReadOperator): Promise<boolean> {
    const { coordination, tables } = this.database;
    return inTransaction(coordination, async (query) => {
      await operatedJob(query, tables, jobName);
      const changed = await query(`update ${tables.jobSchedule} set enabled = $2 where name = $1 and enabled <> $2 returning 1`, [jobName, enabled]);
      await recordAction(query, tables, { action: enabled ? 'enable' : 'disable', jobName, by, reason });
      if (enabled) await wakeUp(query, tables, 'runs');
      return changed.length === 1;
    });
  }
}
