import type { JobDefinition } from '../../domain/job-definition.js';
import { askedToStop, readAskedToStop, type AskedToStopRow } from '../runs/asked-to-stop.js';
import { declaredNumber, type JobInstanceStore, type Presence } from './job-instance.store.js';
import { NO_HOLDS } from './joined-holds.js';
import { queryOn, type Query } from '../connection/query.js';
import { changingSchedules } from './schedule-changes.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import type { SeenAtStart, SeenChanges } from './seen-schedules.js';
import { STORED_JOB_COLUMNS, storedJob, type StoredJobRow } from './stored-job.js';
import { storedPolicies } from './stored-policies.js';

/** Everything up to here has a row, by one expression in one zone. */
export interface Watermark {
  readonly job: JobDefinition;
  readonly decidedUntil: number;
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
   * Writes the declarations. A new job has no past, unless it has a former name. Nor has one whose name was given up for
   * another that is declared beside it: it is a job of its own. The expression and the zone of a job that is there already
   * stay as they are: see `TakeOverStore`. So does what an operator set.
   * @param presence null for an instance that takes no part
   * @returns the declared jobs and those made at run time, as they are stored
   */
  async declare(jobs: readonly JobDefinition[], presence: Presence | null): Promise<SeenAtStart> {
    return changingSchedules(this.database, async (query, revision) => {
      if (presence) await this.instances.announce(presence, query);
      await this.giveNamesBack(query, jobs, revision);
      await this.write(query, jobs, revision);
      const rows = await query<StoredJobRow>(
        `select ${STORED_JOB_COLUMNS}
         from   ${this.database.tables.jobSchedule}
         where  name = any ($1::text[])
         or     handler is not null and removed_at is null`,
        [jobs.map(({ name }) => name)],
      );
      const [clock] = await query<{ now: Date; may_be_back: boolean }>(
        `select clock_timestamp() as now,
                clock_timestamp() < pg_postmaster_start_time() + 2 * $1::float8 * interval '1 millisecond'
                  and exists (select from ${this.database.tables.jobInstances} where alive_until <= clock_timestamp()) as may_be_back`,
        [presence?.aliveMs ?? 0],
      );
      return { databaseNow: clock!.now, othersMayBeBack: clock!.may_be_back, jobs: rows.map(storedJob) };
    });
  }

  /** A former name that is declared beside the later one is a new job's: it waits for nobody, and has no past and no pause. */
  private async giveNamesBack(query: Query, jobs: readonly JobDefinition[], revision: number): Promise<void> {
    await query(
      `update ${this.database.tables.jobSchedule}
       set    yields_to = null,
              ${NO_HOLDS},
              effective_from = clock_timestamp(),
              decided_until = clock_timestamp(),
              revision = $1
       where  name = any ($2::text[])
       and    yields_to = any ($2::text[])`,
      [revision, jobs.map(({ name }) => name)],
    );
  }

  private async write(query: Query, jobs: readonly JobDefinition[], revision: number): Promise<void> {
    const { jobSchedule } = this.database.tables;
    await query(
      `insert into ${jobSchedule} as stored (name, cron, time_zone, calendar, owner, policies, revision, yields_to)
       select declared.name, declared.cron, declared.time_zone, declared.calendar, declared.owner, declared.policies, $1,
             (select nullif(coalesce(former.yields_to, former.name), declared.name)
              from   ${jobSchedule} former
              join   jsonb_array_elements_text(declared.previously) with ordinality as name (name, position) on name.name = former.name
              where  former.removed_at is null
              and    coalesce(former.yields_to, former.name) <> all ($2::text[])
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
              yields_to = coalesce(stored.yields_to, excluded.yields_to),
              effective_from = case when stored.removed_at is not null then clock_timestamp() else stored.effective_from end,
              decided_until = case when stored.removed_at is not null then clock_timestamp() else stored.decided_until end,
              revision = case
                when stored.removed_at is not null or stored.handler is not null then $1
                when stored.yields_to is null and excluded.yields_to is not null then $1
                else stored.revision
              end`,
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
   * @param doubtful jobs to be looked at whatever their revision: a person may have changed their rows
   * @param flags those that are asked for
   */
  async lookIn(presence: Presence, seen: number, doubtful: readonly string[] = [], flags: readonly string[] = []): Promise<SeenChanges> {
    const { jobSchedule, jobInstances, jobBackfills } = this.database.tables;
    const rows = await this.query<Partial<StoredJobRow> & SeenRow>(
      `with me as (
         update ${jobInstances}
         set    alive_until = clock_timestamp() + $2 * interval '1 millisecond'
         where  id = $1
         and    alive_until > clock_timestamp()
         returning id
       )
       select clock_timestamp() as now,
              exists (select from me) as present,
             (select array_agg(id order by id)
              from   ${jobInstances}
              where  alive_until > clock_timestamp()) as company,
             (select array_agg(id order by id)
              from   ${jobInstances}
              where  alive_until > clock_timestamp()
              and    declares = $6) as peers,
              exists (select from ${jobBackfills} where finished_at is null and cancelled_at is null) as backfilling,
             ${askedToStop(this.database.tables, '$1', '$5::text[]')},
              changed.*
       from  (select) as always
       left   join (select ${STORED_JOB_COLUMNS} from ${jobSchedule} where revision > $3 or name = any ($4::text[])) changed on true`,
      [presence.instanceId, presence.aliveMs, seen, doubtful, flags, declaredNumber(presence)],
    );
    const { now, present, company, peers, backfilling } = rows[0]!;
    return {
      databaseNow: now,
      present,
      company: company ?? [],
      peers: peers ?? [],
      backfilling,
      jobs: rows.flatMap((row) => (isThere(row) ? [storedJob(row)] : [])),
      ...readAskedToStop(rows[0]!),
    };
  }

  /**
   * Remembers how far jobs are decided, in one statement; never backwards, and never for an expression that was replaced.
   * The rows are locked in the order of the names, as everywhere: left to itself, the update takes them in the order its
   * plan finds them, and two replicas, or one that starts, would wait for each other.
   */
  async remember(watermarks: readonly Watermark[]): Promise<void> {
    const { jobSchedule } = this.database.tables;
    await this.query(
      `update ${jobSchedule} schedule
       set    decided_until = behind.seen
       from  (select stored.name, seen.decided_until as seen
              from   unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[])
                       as seen (name, cron, time_zone, calendar, decided_until)
              join   ${jobSchedule} stored on stored.name = seen.name
              where  stored.cron = seen.cron
              and    stored.time_zone = seen.time_zone
              and    stored.calendar is not distinct from seen.calendar
              and    stored.yields_to is null
              and    stored.decided_until < seen.decided_until
              order  by stored.name
              for    no key update of stored) behind
       where  schedule.name = behind.name
       and    schedule.decided_until < behind.seen`,
      [
        watermarks.map(({ job }) => job.name),
        watermarks.map(({ job }) => job.schedule.expression),
        watermarks.map(({ job }) => job.schedule.timeZone),
        watermarks.map(({ job }) => job.schedule.calendar),
        watermarks.map(({ decidedUntil }) => new Date(decidedUntil).toISOString()),
      ],
    );
  }
}

interface SeenRow extends AskedToStopRow {
  now: Date;
  present: boolean;
  company: string[] | null;
  peers: string[] | null;
  backfilling: boolean;
}

function isThere(row: Partial<StoredJobRow>): row is StoredJobRow {
  return typeof row.name === 'string';
}
