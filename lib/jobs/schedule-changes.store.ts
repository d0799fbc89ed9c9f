import type { JobDefinition } from '../options/job-definition.js';
import type { FunctionValue, SchedulerDatabase } from '../database/scheduler-database.js';
import { queryOn, type Query } from '../database/query.js';
import { STALE, unlessBusy, untilItHolds } from '../database/retry.js';
import { OperationRefusedError } from '../errors/errors.js';
import type { PartitionStore } from '../database/partition.store.js';
import {
  readJob,
  type JobAsRead,
  type RunTimeParts,
  type StoredJob,
  storedPolicies,
  storedJob,
  storedJobColumns,
  type StoredJobRow,
} from './stored-job.js';
import { planReplacements, rowsOf, type ReplacedSchedule } from './undecided.js';
import { isSpreadByName } from '../cron/cron-fields.js';

/** A job to be kept in the database: what its definition is made of, and the definition. */
interface RunTimeJobToStore {
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

/** The database holds a lock for each job of a batch, and has some thousands for everybody. */
const MOST_AT_ONCE = 200;

/**
 * Gives a job the schedule, or the name, that this instance declares: once no live instance declares the one it has. So
 * two versions of an application that run side by side follow one schedule, the one that was there first, and in a
 * deploy as in a rollback it changes once, when the last instance of the version that leaves has gone. What an operator
 * has put in place of the declared schedule stays, also under another name, until it is cleared.
 */
export class TakeOverStore {
  private readonly query: Query;

  constructor(
    private readonly database: SchedulerDatabase,
    private readonly partitions: PartitionStore,
  ) {
    this.query = queryOn(database.coordination);
  }

  /**
   * @param jobs as they are declared here
   * @returns those that were taken over, and those that now yield to them, as they are stored from now on
   * @throws OperationRefusedError when some were not, for others changed them each time, or hold them
   */
  async takeOver(jobs: readonly JobDefinition[], instanceId: string): Promise<StoredJob[]> {
    const sorted = [...jobs].sort((a, b) => (a.name < b.name ? -1 : 1));
    const changed: string[] = [];
    let refused: unknown;
    for (let first = 0; first < sorted.length; first += MOST_AT_ONCE) {
      let left = sorted.slice(first, first + MOST_AT_ONCE);
      await untilItHolds(`Job "${left[0]!.name}", or one of those taken over with it,`, async () => {
        const { planned, written } = await this.takeOverThose(left, instanceId);
        changed.push(...written);
        left = left.filter(({ name }) => planned.includes(name) && !written.includes(name));
        return left.length > 0 ? STALE : null;
      }).catch((error: unknown) => {
        // What somebody holds is left for the next look, and the others do not wait for that.
        if (!(error instanceof OperationRefusedError)) throw error;
        refused = error;
      });
    }
    if (refused) throw refused;
    return changed.length > 0 ? this.read(changed) : [];
  }

  /** @returns the names of those that nobody else holds to what they have, and of the rows that were changed */
  private async takeOverThose(
    jobs: readonly JobDefinition[],
    instanceId: string,
  ): Promise<{ planned: string[]; written: string[] }> {
    const { free, now } = await this.free(jobs, instanceId);
    if (free.length === 0) return { planned: [], written: [] };
    const replacements = await planReplacements(
      this.query,
      this.database,
      free.flatMap(({ replaced }) => replaced ?? []),
      now,
    );
    const planned = free.map((job) => ({ ...job, replaced: job.replaced && replacements.get(job.replaced.name) }));
    const rows = await this.partitions.makingSure(
      () => rowsOf(replacements.values()),
      () =>
        this.database.call<{ job_schedule_take_over_1: string }>('job_schedule_take_over_1', [
          instanceId,
          now.toISOString(),
          JSON.stringify(planned),
        ]),
    );
    return { planned: planned.map(({ name }) => name), written: rows.map((row) => row.job_schedule_take_over_1) };
  }

  /** Those that nobody else holds to what they have, and the database's clock. */
  private async free(jobs: readonly JobDefinition[], instanceId: string): Promise<{ free: FreeJob[]; now: Date }> {
    const declared = jobs.map(({ name, schedule }) => ({
      name,
      cron: schedule.expression,
      time_zone: schedule.timeZone,
      calendar: schedule.calendar,
    }));
    const rows = await this.query<FreeRow>(
      `select free.*, clock_timestamp() as now
       from   ${this.database.tables.qualify('job_schedule_free_1')}($1, $2::jsonb) free`,
      [instanceId, JSON.stringify(declared)],
    );
    const schedules = new Map(declared.map((job) => [job.name, job]));
    const free = rows.map((row) => {
      // What H stands for is another number under another name.
      const edited = row.edited || (row.yields && row.cron !== null && isSpreadByName(row.cron));
      return {
        ...schedules.get(row.name)!,
        holder: row.holder ?? row.name,
        renamed: row.yields && row.holder !== null && !edited,
        replaced:
          edited && row.holder !== null
            ? {
                name: row.holder,
                cron: row.cron!,
                timeZone: row.time_zone!,
                calendar: row.calendar,
                decidedUntil: row.decided_until!.getTime(),
              }
            : null,
        seen: row.seen,
      };
    });
    return { free, now: rows[0]?.now ?? new Date(0) };
  }

  private async read(names: readonly string[]): Promise<StoredJob[]> {
    const rows = await this.query<StoredJobRow>(
      `select ${storedJobColumns(this.database.tables)} from ${this.database.tables.jobSchedule} where name = any ($1::text[])`,
      [[...new Set(names)]],
    );
    return rows.map(storedJob);
  }
}

interface FreeRow {
  name: string;
  yields: boolean;
  holder: string | null;
  cron: string | null;
  time_zone: string | null;
  calendar: string | null;
  decided_until: Date | null;
  edited: boolean;
  seen: string;
  now: Date;
}

/** A job that may be taken over, with the schedule that is declared: from whom, and what has to be recorded. */
interface FreeJob {
  readonly name: string;
  readonly cron: string;
  readonly time_zone: string;
  readonly calendar: string | null;
  /** The name it has been decided under: its own, when only the schedule changes. */
  readonly holder: string;
  /** The same schedule under another name: what is decided stays decided, what is not is caught up. */
  readonly renamed: boolean;
  readonly replaced: ReplacedSchedule | null;
  readonly seen: string;
}
