import { decidedSpans, type DecidedSpan } from './undecided.js';
import { lostConnections } from '../database/data-sources.js';
import { type Query, queryOn } from '../database/query.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import type { JobDefinition } from '../options/job-definition.js';
import { type AskedToStop, type AskedToStopRow, readAskedToStop } from '../options/run.js';
import { declaredNumber, type Presence, presenceValues } from './job-instance.store.js';
import { storedJob, storedJobColumns, type StoredJob, type StoredJobRow, storedPolicies } from './stored-job.js';

/** SQL that tells a server from others, and from itself before it was restarted. */
const SERVER = 'extract(epoch from pg_postmaster_start_time())::text';

/** Everything up to here has a row, by one expression in one zone. */
export interface Watermark {
  readonly job: JobDefinition;
  readonly decidedUntil: number;
}

/** What the code declares about its jobs, what the database makes of it, and how far each job has been decided. */
export class JobScheduleStore {
  private readonly query: Query;
  /** What was decided here has its rows on that server. */
  private trusted: ServerSeen | null = null;

  constructor(private readonly database: SchedulerDatabase) {
    this.query = queryOn(database.coordination);
  }

  /**
   * Writes the declarations. A new job has no past, unless it has a former name. Nor has one whose name was given up
   * for another that is declared beside it: it is a job of its own. The expression and the zone of a job that is there
   * already stay as they are: see `TakeOverStore`. So does what an operator set.
   * @param presence null for an instance that takes no part
   * @returns the declared jobs and those made at run time, as they are stored
   */
  async declare(jobs: readonly JobDefinition[], presence: Presence | null): Promise<SeenAtStart> {
    const declared = jobs.map((job) => ({
      name: job.name,
      cron: job.schedule.expression,
      time_zone: job.schedule.timeZone,
      calendar: job.schedule.calendar,
      owner: job.owner,
      policies: storedPolicies(job),
      previously: job.previously,
    }));
    const [written] = await this.database.call<{ job_schedule_declare_1: boolean }>('job_schedule_declare_1', [
      ...(presence ? presenceValues(presence) : [null, null, null, null, 0]),
      JSON.stringify(declared),
    ]);
    const lost = lostConnections(this.database.coordination);
    const rows = await this.query<Partial<StoredJobRow> & { now: Date; server: string }>(
      `select clock_timestamp() as now, ${SERVER} as server, stored.*
       from  (select) as always
       left   join (select ${storedJobColumns(this.database.tables)}
                    from   ${this.database.tables.jobSchedule}
                    where  name = any ($1::text[])
                    or     handler is not null and removed_at is null) stored on true`,
      [jobs.map(({ name }) => name)],
    );
    const { now, server } = rows[0]!;
    const seenOn = { server, lost };
    this.trusted ??= seenOn;
    return {
      seenOn,
      databaseNow: now,
      othersMayBeBack: written!.job_schedule_declare_1,
      jobs: rows.flatMap((row) => (isThere(row) ? [storedJob(row)] : [])),
    };
  }

  /**
   * Says that an instance is still there, and looks for what has changed, in one statement.
   * @param seen the highest revision it has followed
   * @param doubtful jobs to be looked at whatever their revision: a person may have changed their rows
   * @param flags those that are asked for
   */
  async lookIn(
    presence: Presence,
    seen: number,
    doubtful: readonly string[] = [],
    flags: readonly string[] = [],
  ): Promise<SeenChanges> {
    const { jobSchedule, jobInstances, jobBackfills } = this.database.tables;
    const lost = lostConnections(this.database.coordination);
    const trusted = this.trustedServer;
    const rows = await this.query<Partial<StoredJobRow> & SeenRow>(
      `with me as (
         update ${jobInstances}
         set    alive_until = clock_timestamp() + $2 * interval '1 millisecond'
         where  id = $1
         and    alive_until > clock_timestamp()
         returning id
       )
       select clock_timestamp() as now,
              ${SERVER} as server,
              exists (select from me) as present,
             (select array_agg(id order by id)
              from   ${jobInstances}
              where  alive_until > clock_timestamp()) as company,
             (select array_agg(id order by id)
              from   ${jobInstances}
              where  alive_until > clock_timestamp()
              and    declares = $6) as peers,
              exists (select from ${jobBackfills} where finished_at is null and cancelled_at is null) as backfilling,
              asked.cancels,
              asked.flags_off,
              changed.*
       from   ${this.database.tables.qualify('asked_to_stop_1')}($1, $5::text[]) asked
       left   join (select ${storedJobColumns(this.database.tables)}
                    from   ${jobSchedule}
                    where  revision > $3
                    or     name = any ($4::text[])
                    or     $7::text is distinct from ${SERVER}) changed on true`,
      [presence.instanceId, presence.aliveMs, seen, doubtful, flags, declaredNumber(presence), trusted],
    );
    const { now, server, present, company, peers, backfilling } = rows[0]!;
    return {
      seenOn: { server, lost },
      isOther: server !== trusted,
      databaseNow: now,
      present,
      company: company ?? [],
      peers: peers ?? [],
      backfilling,
      jobs: rows.flatMap((row) => (isThere(row) ? [storedJob(row)] : [])),
      ...readAskedToStop(rows[0]!),
    };
  }

  /** From now on what is decided here is taken to have its rows on that server. */
  trust(seenOn: ServerSeen): void {
    this.trusted = seenOn;
  }

  /** Null once a connection was lost. */
  private get trustedServer(): string | null {
    return this.trusted?.lost === lostConnections(this.database.coordination) ? this.trusted.server : null;
  }

  /** What has a row already of each job's fire times later than `from`. Milliseconds. */
  decided(jobs: readonly { readonly name: string; readonly from: number }[]): Promise<Map<string, DecidedSpan[]>> {
    return decidedSpans(this.query, this.database.tables, jobs);
  }

  /**
   * Remembers how far jobs are decided, in one statement; never backwards, never for an expression that was replaced,
   * and never on a server that may lack the rows. The rows are locked in the order of the names, as everywhere: left to
   * itself, the update takes them in the order its plan finds them, and two replicas, or one that starts, would wait
   * for each other.
   */
  async remember(watermarks: readonly Watermark[]): Promise<void> {
    const { jobSchedule } = this.database.tables;
    const server = this.trustedServer;
    if (server === null) return;
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
              and    ${SERVER} = $6
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
        server,
      ],
    );
  }
}

interface SeenRow extends AskedToStopRow {
  now: Date;
  server: string;
  present: boolean;
  company: string[] | null;
  peers: string[] | null;
  backfilling: boolean;
}

function isThere(row: Partial<StoredJobRow>): row is StoredJobRow {
  return typeof row.name === 'string';
}

/** What a start finds. */
interface SeenAtStart extends SeenSchedules {
  /**
   * The database was away until just now, and there are instances that were not heard of since: they may be about to
   * come back. At any other time such an instance is gone.
   */
  readonly othersMayBeBack: boolean;
}

/**
 * Which server answered, and how many connections had been lost before it was asked. What was said before may be gone
 * from another server, and from one that was restarted: a standby that was promoted lacks what it had not been sent,
 * and a server that crashed what was not on its disk (`synchronous_commit`).
 */
interface ServerSeen {
  readonly server: string;
  readonly lost: number;
}

/** What the database has for an instance, and its clock when it said so. */
interface SeenSchedules {
  readonly seenOn: ServerSeen;
  readonly databaseNow: Date;
  readonly jobs: readonly StoredJob[];
}

/** What an instance finds when it looks in. */
export interface SeenChanges extends SeenSchedules, AskedToStop {
  /**
   * The server is not surely the one that was trusted last: the jobs are all there are, and what was decided may not be
   * any more.
   */
  readonly isOther: boolean;
  /** False: it was taken for gone, and has to announce itself again. */
  readonly present: boolean;
  /** The ids of the instances that are there, in their order. */
  readonly company: readonly string[];
  /** Those of them that declare the same jobs and handlers. */
  readonly peers: readonly string[];
  /** There is a backfill to be fed. */
  readonly backfilling: boolean;
}
