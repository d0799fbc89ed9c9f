import type { Schedule } from '../../domain/schedule/schedule.js';
import { RenamedJobError } from '../../errors/renamed-job.error.js';
import { UnknownJobError } from '../../errors/unknown-job.error.js';
import { queryOn, type Query } from '../connection/query.js';
import { STALE, untilItHolds } from '../connection/until-it-holds.js';
import { readJob, type JobAsRead } from '../jobs/job-as-read.js';
import { planReplacements, rowsOf } from '../jobs/replaced-schedules.js';
import type { StoredJob } from '../jobs/stored-job.js';
import { unknownJob } from '../jobs/unknown-job.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import type { PartitionStore } from '../upkeep/partition.store.js';
import type { ReadOperator } from './operated-job.js';

/** Puts an operator's schedule in place of the one that the code declares. Every replica follows, and no deploy changes it. */
export class OverrideStore {
  private readonly query: Query;

  constructor(
    private readonly database: SchedulerDatabase,
    private readonly partitions: PartitionStore,
  ) {
    this.query = queryOn(database.coordination);
  }

  /**
   * What is decided stays decided: another expression or zone holds from now on.
   * @param change gets the job as it is; again, when others have changed it meanwhile
   */
  override(jobName: string, change: (stored: StoredJob) => Schedule, { by, reason }: ReadOperator): Promise<void> {
    return untilItHolds(`Job "${jobName}"`, async () => {
      const { stored, seen, now } = await this.read(jobName);
      if (stored.runTime) throw new UnknownJobError(jobName, 'made at run time');
      const { expression, timeZone } = change(stored);
      const edited = stored.cron !== expression || stored.timeZone !== timeZone;
      const plans = await planReplacements(this.query, this.database, edited ? [stored] : [], now);
      const details = { cron: expression, timeZone, was: { cron: stored.cron, timeZone: stored.timeZone } };
      const [written] = await this.partitions.makingSure(
        () => rowsOf(plans.values()),
        () =>
          this.database.call<{ job_schedule_override_1: boolean }>('job_schedule_override_1', [
            ...[jobName, seen, edited ? JSON.stringify(plans.get(jobName)) : null],
            ...[expression, timeZone, by, reason, JSON.stringify(details)],
          ]),
      );
      if (!written!.job_schedule_override_1) return STALE;
    });
  }

  /**
   * From now on declarations count again: the first live instance that declares another schedule takes over.
   * @returns false when there was no override
   */
  clear(jobName: string, { by, reason }: ReadOperator): Promise<boolean> {
    return untilItHolds(`Job "${jobName}"`, async () => {
      await this.read(jobName);
      const [cleared] = await this.database.call<{ job_schedule_clear_override_1: boolean | null }>('job_schedule_clear_override_1', [jobName, by, reason]);
      return cleared!.job_schedule_clear_override_1 ?? STALE;
    });
  }

  /** @throws UnknownJobError, RenamedJobError */
  private async read(jobName: string): Promise<JobAsRead> {
    const { tables } = this.database;
    const read = await readJob(this.query, tables, jobName);
    if (!read || read.stored.removed) throw await unknownJob(this.query, tables.jobSchedule, jobName);
    if (read.stored.yieldsTo !== null) throw new RenamedJobError(jobName, read.stored.yieldsTo);
    return read;
  }
}
