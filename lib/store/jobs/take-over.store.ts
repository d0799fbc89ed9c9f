import { DECIDED_AS } from '../../domain/missed/backfill.js';
import { isSpreadByName } from '../../domain/schedule/cron-hash.js';
import type { JobDefinition } from '../../domain/job-definition.js';
import type { ReplacedSchedule } from '../../domain/schedule/replaced-schedule.js';
import { JOINED_HOLDS, joinedPause, NO_HOLDS } from './joined-holds.js';
import type { PartitionStore } from '../upkeep/partition.store.js';
import type { Query } from '../connection/query.js';
import { holdJobs, replacingSchedules } from './replaced-schedules.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import { scheduleAsDeclared } from './schedule-as-declared.js';
import { STORED_JOB_COLUMNS, storedJob, type StoredJob, type StoredJobRow } from './stored-job.js';

/** The database holds a lock for each job of a batch, and has some thousands for everybody. */
const MOST_AT_ONCE = 200;

/**
 * Gives a job the schedule, or the name, that this instance declares: once no live instance declares the one it has. So
 * two versions of an application that run side by side follow one schedule, the one that was there first, and in a deploy
 * as in a rollback it changes once, when the last instance of the version that leaves has gone. What an operator has put in
 * place of the declared schedule stays, also under another name, until it is cleared.
 */
export class TakeOverStore {
  constructor(
    private readonly database: SchedulerDatabase,
    private readonly partitions: PartitionStore,
  ) {}

  /**
   * @param jobs as they are declared here
   * @returns those that were taken over, and those that now yield to them, as they are stored from now on
   */
  async takeOver(jobs: readonly JobDefinition[], instanceId: string): Promise<StoredJob[]> {
    const sorted = [...jobs].sort((a, b) => (a.name < b.name ? -1 : 1));
    const changed: StoredJob[] = [];
    for (let first = 0; first < sorted.length; first += MOST_AT_ONCE) {
      changed.push(...(await this.takeOverBatch(sorted.slice(first, first + MOST_AT_ONCE), instanceId)));
    }
    return changed;
  }

  private takeOverBatch(jobs: readonly JobDefinition[], instanceId: string): Promise<StoredJob[]> {
    const { database, partitions } = this;
    return replacingSchedules(database, partitions, async (query, revision, replace) => {
      const free = await this.free(query, jobs, instanceId);
      if (free.length === 0) return [];
      await holdJobs(query, database, free.flatMap(({ name, holder }) => [name, holder]));
      const from = await replace(free.flatMap(({ replaced }) => replaced ?? []));
      await this.carryOver(query, free.filter(({ renamed }) => renamed));
      return this.write(query, jobs, free, from, revision);
    });
  }

  /** Those that nobody else holds to what they have. */
  private async free(query: Query, jobs: readonly JobDefinition[], instanceId: string): Promise<FreeJob[]> {
    const { jobSchedule, jobInstances } = this.database.tables;
    const rows = await query<FreeRow>(
      `select stored.name, stored.yields_to is not null as yields,
              holder.name as holder, holder.cron, holder.time_zone, holder.calendar, holder.decided_until,
              holder.overridden_at is null
                and (holder.cron, holder.time_zone, holder.calendar) is distinct from (declared.cron, declared.time_zone, declared.calendar) as edited
       from   unnest($1::text[], $2::text[], $3::text[], $4::text[]) as declared (name, cron, time_zone, calendar)
       join   ${jobSchedule} stored on stored.name = declared.name
       left   join ${jobSchedule} holder on holder.name = coalesce(stored.yields_to, stored.name)
       where (stored.yields_to is not null
              or stored.overridden_at is null
                and (stored.cron, stored.time_zone, stored.calendar) is distinct from (declared.cron, declared.time_zone, declared.calendar))
       and    not exists (
                select from ${jobInstances} other
                where  other.id <> $5
                and    other.alive_until > clock_timestamp()
                and    case
                         when stored.yields_to is null then other.jobs -> stored.name = ${scheduleAsDeclared('stored')}
                         else other.jobs ? stored.yields_to
                       end)
       order  by stored.name`,
      [
        jobs.map(({ name }) => name),
        jobs.map(({ schedule }) => schedule.expression),
        jobs.map(({ schedule }) => schedule.timeZone),
        jobs.map(({ schedule }) => schedule.calendar),
        instanceId,
      ],
    );
    return rows.map((row) => {
      // What H stands for is another number under another name.
      const edited = row.edited || (row.yields && row.cron !== null && isSpreadByName(row.cron));
      return {
        name: row.name,
        holder: row.holder ?? row.name,
        renamed: row.yields && row.holder !== null && !edited,
        replaced:
          edited && row.holder !== null
            ? { name: row.holder, cron: row.cron!, timeZone: row.time_zone!, calendar: row.calendar, decidedUntil: row.decided_until!.getTime() }
            : null,
      };
    });
  }

  /** What was decided under the other name is decided: a row under the new one says so. */
  private async carryOver(query: Query, renamed: readonly FreeJob[]): Promise<void> {
    const { jobRuns, jobSchedule } = this.database.tables;
    if (renamed.length === 0) return;
    await query(
      `insert into ${jobRuns} (job_name, fire_time, status, trigger, reason, finished_at, gap_from, gap_count)
       select renamed.name, run.fire_time, 'skipped', run.trigger, $3 || holder.name, clock_timestamp(), run.gap_from, run.gap_count
       from   unnest($1::text[], $2::text[]) as renamed (name, holder)
       join   ${jobSchedule} holder on holder.name = renamed.holder
       join   ${jobRuns} run on run.job_name = holder.name and run.fire_time > holder.decided_until and run.trigger <> 'manual'
       on     conflict (job_name, fire_time) do nothing`,
      [renamed.map(({ name }) => name), renamed.map(({ holder }) => holder), DECIDED_AS],
    );
  }

  private async write(query: Query, jobs: readonly JobDefinition[], free: readonly FreeJob[], from: Date, revision: number): Promise<StoredJob[]> {
    const { jobSchedule } = this.database.tables;
    const definitions = new Map(jobs.map((job) => [job.name, job]));
    const taken = free.map((job) => ({ ...job, schedule: definitions.get(job.name)!.schedule }));
    await query(
      `update ${jobSchedule} taken
       set    cron = case when holder.overridden_at is null then free.cron else holder.cron end,
              time_zone = case when holder.overridden_at is null then free.time_zone else holder.time_zone end,
              calendar = case when holder.overridden_at is null then free.calendar else holder.calendar end,
              overridden_at = holder.overridden_at,
              overridden_by = holder.overridden_by,
              overridden_reason = holder.overridden_reason,
              effective_from = case when free.renamed then holder.effective_from else $8 end,
              decided_until = case when free.renamed then holder.decided_until else $8 end,
              ${JOINED_HOLDS},
              yields_to = null,
              revision = $1
       from   unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::boolean[])
                as free (name, holder, cron, time_zone, calendar, renamed)
       join   ${jobSchedule} holder on holder.name = free.holder
       join   ${jobSchedule} own on own.name = free.name
       ${joinedPause(jobSchedule)}
       where  taken.name = free.name`,
      [
        revision,
        taken.map(({ name }) => name),
        taken.map(({ holder }) => holder),
        taken.map(({ schedule }) => schedule.expression),
        taken.map(({ schedule }) => schedule.timeZone),
        taken.map(({ schedule }) => schedule.calendar),
        taken.map(({ renamed }) => renamed),
        from,
      ],
    );
    const places = [revision, free.map(({ name }) => name), free.map(({ holder }) => holder)];
    await query(
      `update ${jobSchedule} former
       set    yields_to = free.name,
              ${NO_HOLDS},
              revision = $1
       from   unnest($2::text[], $3::text[]) as free (name, holder)
       where  former.name = free.holder
       and    free.name <> free.holder`,
      places,
    );
    // What waits of it is finished under the old name; what comes next is this name's.
    await query(
      `update ${this.database.tables.jobBackfills} backfill
       set    job_name = free.name
       from   unnest($1::text[], $2::text[]) as free (name, holder)
       where  backfill.job_name = free.holder
       and    free.name <> free.holder
       and    backfill.finished_at is null
       and    backfill.cancelled_at is null`,
      places.slice(1),
    );
    // So do other names that waited for it: only one of them all holds the schedule.
    await query(
      `update ${jobSchedule} waiting
       set    yields_to = free.name,
              revision = $1
       from   unnest($2::text[], $3::text[]) as free (name, holder)
       where  waiting.yields_to = free.holder
       and    free.name <> free.holder
       and    waiting.name <> free.name`,
      places,
    );
    const rows = await query<StoredJobRow>(`select ${STORED_JOB_COLUMNS} from ${jobSchedule} where revision = $1`, [revision]);
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
}

/** A job that may be taken over: from whom, and what has to be recorded. */
interface FreeJob {
  readonly name: string;
  /** The name it has been decided under: its own, when only the schedule changes. */
  readonly holder: string;
  /** The same schedule under another name: what is decided stays decided, what is not is caught up. */
  readonly renamed: boolean;
  readonly replaced: ReplacedSchedule | null;
}
