import type { JobDefinition } from '../options/job-definition.js';
import type { FunctionValue, SchedulerDatabase } from '../database/scheduler-database.js';
import { queryOn, type Query } from '../database/query.js';
import { STALE, unlessBusy, untilItHolds } from '../database/retry.js';
import type { PartitionStore } from '../database/partition.store.js';
import { readJob, type JobAsRead } from './stored-job.js';
import { planReplacements, rowsOf } from './replaced-schedules.js';
import type { RunTimeParts, StoredJob } from './stored-job.js';
import { storedPolicies } from './stored-job.js';

/** A job to be kept in the database: what its definition is made of, and the definition. */
export interface RunTimeJobToStore {
  readonly job: JobDefinition;
  readonly parts: RunTimeParts;
}

/** What the database has under a name: the job, or who else has the name. */
export type Found = StoredJob | 'missing' | 'declared by code';

/** Jobs that are made, changed and removed while the application runs. Every replica follows. */
export class RunTimeJobStore {
  private readonly query: Query;

  constructor(
    private readonly database: SchedulerDatabase,
    private readonly partitions: PartitionStore,
  ) {
    this.query = queryOn(database.coordination);
  }

  /** @returns what has the name already, or null when the job was added. It has no past. */
  add(toStore: RunTimeJobToStore): Promise<StoredJob | null> {
    const { name } = toStore.job;
    return untilItHolds(`Job "${name}"`, async () => {
      const [added] = await unlessBusy('add', `job "${name}"`, () =>
        this.database.call<{ job_schedule_add_1: boolean }>('job_schedule_add_1', valuesOf(toStore)),
      );
      if (added!.job_schedule_add_1) return null;
      const there = await readJob(this.query, this.database.tables, name);
      return there && !there.stored.removed ? there.stored : STALE;
    });
  }

  /**
   * @param change gets the job as it is; again, when others have changed it meanwhile
   * @returns what is there: the job as it was before, or why nothing was changed
   */
  update(name: string, change: (stored: StoredJob) => RunTimeJobToStore): Promise<Found> {
    return this.changing('change', name, async ({ stored, seen, now }) => {
      const toStore = change(stored);
      const { expression, timeZone, calendar } = toStore.job.schedule;
      const edited = stored.cron !== expression || stored.timeZone !== timeZone || stored.calendar !== calendar;
      const plans = await planReplacements(this.query, this.database, edited ? [stored] : [], now);
      const [written] = await this.partitions.makingSure(
        () => rowsOf(plans.values()),
        () =>
          this.database.call<{ job_schedule_update_1: boolean }>('job_schedule_update_1', [
            ...valuesOf(toStore),
            seen,
            edited ? JSON.stringify(plans.get(name)) : null,
          ]),
      );
      return written!.job_schedule_update_1;
    });
  }

  /**
   * Its waiting runs and its backfills are cancelled with it; one that runs goes on. @returns the job that was removed,
   * or why none was
   */
  remove(name: string): Promise<Found> {
    return this.changing('remove', name, async ({ seen }) => {
      const [removed] = await this.database.call<{ job_schedule_remove_1: boolean }>('job_schedule_remove_1', [
        name,
        seen,
      ]);
      return removed!.job_schedule_remove_1;
    });
  }

  /** @param write false: the job is not as it was read */
  private changing(verb: string, name: string, write: (read: JobAsRead) => Promise<boolean>): Promise<Found> {
    return untilItHolds(`Job "${name}"`, async () => {
      const read = await readJob(this.query, this.database.tables, name);
      if (!read || read.stored.removed) return 'missing';
      if (!read.stored.runTime) return 'declared by code';
      return (await unlessBusy(verb, `job "${name}"`, () => write(read))) ? read.stored : STALE;
    });
  }
}

function valuesOf({ job, parts }: RunTimeJobToStore): FunctionValue[] {
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
