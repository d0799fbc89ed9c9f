import type { JobDefinition } from '../domain/job-definition.js';
import type { RunKey } from '../domain/run.js';
import type { JobInstanceStore, Presence } from './job-instance.store.js';
import { queryOn, type Query } from './query.js';
import { changingSchedules } from './schedule-changes.js';
import type { SchedulerDatabase } from './scheduler-database.js';
import { STORED_JOB_COLUMNS, storedJob, type StoredJob, type StoredJobRow } from './stored-job.js';
import { storedPolicies } from './stored-policies.js';

/** Everything up to here has a row, by one expression in one zone. */
export interface Watermark {
  readonly job: JobDefinition;
  readonly decidedUntil: number;
}

/** What the database has for an instance, and its clock when it said so. */
export interface SeenSchedules {
  readonly databaseNow: Date;
  readonly jobs: readonly StoredJob[];
}

/** Somebody asked to cancel a run of this instance. */
export interface CancelRequest extends RunKey {
  readonly attempt: number;
  readonly reason: string;
}

/** What an instance finds when it looks in. */
export interface SeenChanges extends SeenSchedules {
  /** False: it was taken for gone, and has to announce itself again. */
  readonly present: boolean;
  /** Changes with each instance that comes or goes. */
  readonly company: string;
  readonly cancels: readonly CancelRequest[];
  /** Of the flags that were asked for, those that the table has as off. */
  readonly flagsOff: readonly string[];
}

/** What the code declares about its jobs, what the database makes of it, and how far each job has been decided. */
export class JobScheduleStore {
  private readonly query: Query;

  constructor(
    private readonly database: SchedulerDatabase,
    private readonly instances: JobInstanceStore,
  ) {
    this.query = queryOn(database.coordination);
  }

  /**
   * Writes the declarations. A new job has no past, unless it has a former name. The expression and the zone of a job
   * that is there already stay as they are: see `TakeOverStore`. So does what an operator set.
   * @param presence null for an instance that takes no part
   * @returns the declared jobs and those made at run time, as they are stored
   */
  async declare(jobs: readonly JobDefinition[], presence: Presence | null): Promise<SeenSchedules> {
    return changingSchedules(this.database, async (query, revision) => {
      if (presence) await this.instances.announce(presence, query);
      await this.write(query, jobs, revision);
      const rows = await query<StoredJobRow>(
        `select ${STORED_JOB_COLUMNS}
         from   ${this.database.tables.jobSchedule}
         where  name = any ($1::text[])
         or     handler is not null and removed_at is null`,
        [jobs.map(({ name }) => name)],
      );
      const [clock] = await query<{ now: Date }>('select clock_timestamp() as now');
      return { databaseNow: clock!.now, jobs: rows.map(storedJob) };
    });
  }

  private async write(query: Query, jobs: readonly JobDefinition[], revision: number): Promise<void> {
    const { jobSchedule } = this.database.tables;
    await query(
      `insert into ${jobSchedule} as stored (name, cron, time_zone, calendar, owner, policies, revision, yields_to)
       select declared.name, declared.cron, declared.time_zone, declared.calendar, declared.owner, declared.policies, $1,
             (select former.name
              from   ${jobSchedule} former
              join   jsonb_array_elements_text(declared.previously) with ordinality as name (name, position) on name.name = former.name
              where  former.yields_to is null
              and    former.removed_at is null
              order  by position
              limit  1)
       from   unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::jsonb[], $8::jsonb[])
                as declared (name, cron, time_zone, calendar, owner, policies, previously)
       order  by declared.name
       on     conflict (name) do update
       set    owner = excluded.owner,
              policies = excluded.policies,
              declared_at = clock_timestamp(),
              handler = null,
              options = null,
              data = null,
              removed_at = null,
              revision = case when stored.removed_at is null and stored.handler is null then stored.revision else $1 end,
              effective_from = case when stored.removed_at is null then stored.effective_from else clock_timestamp() end,
              decided_until = case when stored.removed_at is null then stored.decided_until else clock_timestamp() end`,
      [
        revision,
        jobs.map(({ name }) => name),
        jobs.map(({ schedule }) => schedule.expression),
        jobs.map(({ schedule }) => schedule.timeZone),
        jobs.map(({ schedule }) => schedule.calendar),
        jobs.map(({ owner }) => owner),
        jobs.map((job) => JSON.stringify(storedPolicies(job))),
        jobs.map(({ previously }) => JSON.stringify(previously)),
      ],
    );
  }

  /**
   * Says that an instance is still there, and looks for what has changed, in one statement.
   * @param seen the highest revision it has followed
   * @param flags those that are asked for
   */
  async lookIn({ instanceId, aliveMs }: Presence, seen: number, flags: readonly string[] = []): Promise<SeenChanges> {
    const { jobSchedule, jobInstances, jobRuns, jobFlags } = this.database.tables;
    const rows = await this.query<Partial<StoredJobRow> & SeenRow>(
      `with me as (
         update ${jobInstances}
         set    alive_until = clock_timestamp() + $2 * interval '1 millisecond'
         where  id = $1
         returning id
       )
       select clock_timestamp() as now,
              exists (select from me) as present,
             (select md5(string_agg(id, ' ' order by id))
              from   ${jobInstances}
              where  alive_until > clock_timestamp()) as company,
             (select jsonb_agg(jsonb_build_object('jobName', job_name, 'fireTime', fire_time, 'attempt', attempt, 'reason', cancel_reason))
              from   ${jobRuns}
              where  status = 'running'
              and    claimed_by = $1
              and    cancel_requested_at is not null) as cancels,
             (select array_agg(flag.name)
              from   ${jobFlags} flag
              where  flag.name = any ($4::text[])
              and    not flag.is_on) as flags_off,
              changed.*
       from  (select) as always
       left   join (select ${STORED_JOB_COLUMNS} from ${jobSchedule} where revision > $3) changed on true`,
      [instanceId, aliveMs, seen, flags],
    );
    const { now, present, company, cancels, flags_off } = rows[0]!;
    return {
      databaseNow: now,
      present,
      company: company ?? '',
      jobs: rows.flatMap((row) => (isThere(row) ? [storedJob(row)] : [])),
      cancels: (cancels ?? []).map((request) => ({ ...request, fireTime: new Date(request.fireTime) })),
      flagsOff: flags_off ?? [],
    };
  }

  /** Remembers how far jobs are decided, in one statement; never backwards, and never for an expression that was replaced. */
  async remember(watermarks: readonly Watermark[]): Promise<void> {
    const sorted = [...watermarks].sort((a, b) => (a.job.name < b.job.name ? -1 : 1));
    await this.query(
      `update ${this.database.tables.jobSchedule} schedule
       set    decided_until = seen.decided_until
       from  (select *
              from   unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[])
                       as seen (name, cron, time_zone, calendar, decided_until)) seen
       where  schedule.name = seen.name
       and    schedule.cron = seen.cron
       and    schedule.time_zone = seen.time_zone
       and    schedule.calendar is not distinct from seen.calendar
       and    schedule.yields_to is null
       and    schedule.decided_until < seen.decided_until`,
      [
        sorted.map(({ job }) => job.name),
        sorted.map(({ job }) => job.schedule.expression),
        sorted.map(({ job }) => job.schedule.timeZone),
        sorted.map(({ job }) => job.schedule.calendar),
        sorted.map(({ decidedUntil }) => new Date(decidedUntil).toISOString()),
      ],
    );
  }
}

interface SeenRow {
  now: Date;
  present: boolean;
  company: string | null;
  cancels: { jobName: string; fireTime: string; attempt: number; reason: string }[] | null;
  flags_off: string[] | null;
}

function isThere(row: Partial<StoredJobRow>): row is StoredJobRow {
  return typeof row.name === 'string';
}
