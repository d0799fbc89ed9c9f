import type { StoredJob } from '../jobs/stored-job.js';
import { RunRefusedError } from '../../errors/run-refused.error.js';
import { operatedJob, type ReadOperator } from './operated-job.js';
import type { PartitionStore } from '../upkeep/partition.store.js';
import { recordAction } from './record-action.js';
import { holdJobs } from '../jobs/replaced-schedules.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import { inTransaction } from '../connection/transaction.js';

/** Decides occurrences before they are due: each gets a row that says that it does not run. */
export class SkipStore {
  constructor(
    private readonly database: SchedulerDatabase,
    private readonly partitions: PartitionStore,
  ) {}

  /**
   * @param next the occurrences after the database's now, given the job as it is
   * @returns those that `next` named; one that had a row already has no other
   */
  async skip(jobName: string, next: (stored: StoredJob, now: number) => readonly number[], { by, reason }: ReadOperator): Promise<Date[]> {
    const { database } = this;
    const { tables } = database;
    let fireTimes: Date[] = [];
    return this.partitions.makingSure(
      () => fireTimes,
      () =>
        inTransaction(database.coordination, async (query) => {
          await holdJobs(query, database, [jobName]);
          const stored = await operatedJob(query, tables, jobName);
          const [clock] = await query<{ now: Date }>('select clock_timestamp() as now');
          fireTimes = next(stored, clock!.now.getTime()).map((fireTime) => new Date(fireTime));
          const skipped = await query<{ fire_time: Date }>(
            `insert into ${tables.jobRuns} (job_name, fire_time, status, trigger, reason, requested_by, finished_at)
             select $1, fire_time, 'skipped', 'schedule', $3, $4, clock_timestamp()
             from   unnest($2::timestamptz[]) as occurrence (fire_time)
             on     conflict (job_name, fire_time) do nothing
             returning fire_time`,
            [jobName, fireTimes.map((fireTime) => fireTime.toISOString()), `skipped by ${by}${reason ? `: ${reason}` : ''}`, by],
          );
          for (const { fire_time } of skipped) await recordAction(query, tables, { action: 'skip', jobName, fireTime: fire_time, by, reason });
          return fireTimes;
        }),
    );
  }

  /** The occurrence runs after all. @throws RunRefusedError when it was not skipped by an operator, or its time has come */
  async unskip(jobName: string, fireTime: Date, { by, reason }: ReadOperator): Promise<void> {
    const { database } = this;
    const { tables } = database;
    await inTransaction(database.coordination, async (query) => {
      await holdJobs(query, database, [jobName]);
      const removed = await query(
        `delete from ${tables.jobRuns}
         where  job_name = $1
         and    fire_time = $2
         and    status = 'skipped'
         and    requested_by is not null
         and    gap_from is null
         and    fire_time > clock_timestamp()
         returning 1`,
        [jobName, fireTime.toISOString()],
      );
      if (removed.length === 0) {
        const occurrence = `undo the skip of ${fireTime.toISOString()}`;
        throw new RunRefusedError(jobName, occurrence, 'no operator skipped it, or its time has come; look at it with explain');
      }
      await recordAction(query, tables, { action: 'unskip', jobName, fireTime, by, reason });
    });
  }
}
