import { isSpreadByName } from '../cron/cron-fields.js';
import type { JobDefinition } from '../options/job-definition.js';
import type { ReplacedSchedule } from '../catch-up/replaced-schedule.js';
import { queryOn, type Query } from '../database/query.js';
import { STALE, untilItHolds } from '../database/retry.js';
import type { PartitionStore } from '../database/partition.store.js';
import { planReplacements, rowsOf } from './replaced-schedules.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import { storedJob, storedJobColumns, type StoredJob, type StoredJobRow } from './stored-job.js';

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
   */
  async takeOver(jobs: readonly JobDefinition[], instanceId: string): Promise<StoredJob[]> {
    const sorted = [...jobs].sort((a, b) => (a.name < b.name ? -1 : 1));
    const changed: string[] = [];
    for (let first = 0; first < sorted.length; first += MOST_AT_ONCE) {
      let left = sorted.slice(first, first + MOST_AT_ONCE);
      await untilItHolds(`Job "${left[0]!.name}", or one of those taken over with it,`, async () => {
        const { planned, written } = await this.takeOverThose(left, instanceId);
        changed.push(...written);
        left = left.filter(({ name }) => planned.includes(name) && !written.includes(name));
        return left.length > 0 ? STALE : null;
      });
    }
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
