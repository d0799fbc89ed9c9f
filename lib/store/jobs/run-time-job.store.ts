import type { JobDefinition } from '../../domain/job-definition.js';
import type { PartitionStore } from '../upkeep/partition.store.js';
import type { Query } from '../connection/query.js';
import { holdJobs, replacingSchedules } from './replaced-schedules.js';
import { changingSchedules } from './schedule-changes.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import { STORED_JOB_COLUMNS, storedJob, type RunTimeParts, type StoredJob, type StoredJobRow } from './stored-job.js';
import { storedPolicies } from './stored-policies.js';
import { wakeUp } from '../wake-up.js';

/** A job to be kept in the database: what its definition is made of, and the definition. */
export interface RunTimeJobToStore {
  readonly job: JobDefinition;
  readonly parts: RunTimeParts;
}

/** What the database has under a name: the job, or who else has the name. */
export type Found = StoredJob | 'missing' | 'declared by code';

/** Jobs that are made, changed and removed while the application runs. Every replica follows. */
export class RunTimeJobStore {
  constructor(
    private readonly database: SchedulerDatabase,
    private readonly partitions: PartitionStore,
  ) {}

  /** @returns what has the name already, or null when the job was added. It has no past. */
  async add(toStore: RunTimeJobToStore): Promise<StoredJob | null> {
    return changingSchedules(this.database, async (query, revision) => {
      const there = await this.stored(query, toStore.job.name);
      if (there && !there.removed && (there.runTime || (await this.isDeclared(query, there.name)))) return there;
      await query(
        `insert into ${this.database.tables.jobSchedule} (name, cron, time_zone, calendar, owner, policies, handler, options, data, revision)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
         on     conflict (name) do update
         set    cron = excluded.cron,
                time_zone = excluded.time_zone,
                calendar = excluded.calendar,
                overridden_at = null,
                owner = excluded.owner,
                policies = excluded.policies,
                handler = excluded.handler,
                options = excluded.options,
                data = excluded.data,
                revision = excluded.revision,
                enabled = true,
                paused_at = null,
                paused_until = null,
                yields_to = null,
                removed_at = null,
                declared_at = clock_timestamp(),
                effective_from = clock_timestamp(),
                decided_until = clock_timestamp()`,
        [...valuesOf(toStore), revision],
      );
      await wakeUp(query, this.database.tables, 'jobs');
      return null;
    });
  }

  /**
   * @param change gets the job as it is
   * @returns what is there: the job as it was before, or why nothing was changed
   */
  async update(name: string, change: (stored: StoredJob) => RunTimeJobToStore): Promise<Found> {
    const { database, partitions } = this;
    return replacingSchedules(database, partitions, async (query, revision, replace) => {
      await holdJobs(query, database, [name]);
      const found = await this.found(query, name);
      if (typeof found === 'string') return found;
      const toStore = change(found);
      const { expression, timeZone, calendar } = toStore.job.schedule;
      const edited = found.cron !== expression || found.timeZone !== timeZone || found.calendar !== calendar;
      const from = edited ? await replace([found]) : null;
      await query(
        `update ${database.tables.jobSchedule}
         set    cron = $2,
                time_zone = $3,
                calendar = $4,
                owner = $5,
                policies = $6,
                handler = $7,
                options = $8,
                data = $9,
                revision = $10,
                declared_at = clock_timestamp(),
                effective_from = coalesce($11, effective_from),
                decided_until = coalesce($11, decided_until)
         where  name = $1`,
        [...valuesOf(toStore), revision, from],
      );
      await wakeUp(query, database.tables, 'jobs');
      return found;
    });
  }

  /** Its waiting runs and its backfills are cancelled with it; one that runs goes on. @returns the job that was removed, or why none was */
  async remove(name: string): Promise<Found> {
    const { database } = this;
    return changingSchedules(database, async (query, revision) => {
      await holdJobs(query, database, [name]);
      const found = await this.found(query, name);
      if (typeof found === 'string') return found;
      await query(`update ${database.tables.jobSchedule} set removed_at = clock_timestamp(), revision = $2 where name = $1`, [name, revision]);
      await query(
        `update ${database.tables.jobRuns}
         set    status = 'cancelled',
                reason = 'its job was removed',
                finished_at = clock_timestamp(),
                next_attempt_at = null
         where  job_name = $1
         and    status in ('queued', 'failed', 'orphaned')`,
        [name],
      );
      await wakeUp(query, database.tables, 'jobs');
      await query(
        `update ${database.tables.jobBackfills}
         set    cancelled_at = clock_timestamp(),
                cancelled_reason = 'its job was removed'
         where  job_name = $1
         and    finished_at is null
         and    cancelled_at is null`,
        [name],
      );
      return found;
    });
  }

  /** A name that no live instance's code has any more is free. */
  private async isDeclared(query: Query, name: string): Promise<boolean> {
    const rows = await query(`select from ${this.database.tables.jobInstances} where alive_until > clock_timestamp() and jobs ? $1`, [name]);
    return rows.length > 0;
  }

  private async found(query: Query, name: string): Promise<Found> {
    const stored = await this.stored(query, name);
    if (!stored || stored.removed) return 'missing';
    return stored.runTime ? stored : 'declared by code';
  }

  private async stored(query: Query, name: string): Promise<StoredJob | null> {
    const [row] = await query<StoredJobRow>(`select ${STORED_JOB_COLUMNS} from ${this.database.tables.jobSchedule} where name = $1`, [name]);
    return row ? storedJob(row) : null;
  }
}

function valuesOf({ job, parts }: RunTimeJobToStore): unknown[] {
  return [
    job.name,
    job.schedule.expression,
    job.schedule.timeZone,
    job.schedule.calendar,
    job.owner,
    JSON.stringify(storedPolicies(job)),
    parts.handler,
    JSON.stringify(parts.options),
    parts.data === undefined ? null : JSON.stringify(parts.data),
  ];
}
