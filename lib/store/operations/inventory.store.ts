import type { RunStatus } from '../../domain/runs/run.js';
import type { JobAction } from '../entities/job-action.entity.js';
import { queryOn, type Query } from '../connection/query.js';
import type { SchedulerDatabase } from '../scheduler-database.js';

/** A job as the database has it. */
export interface InventoryRow {
  readonly name: string;
  readonly owner: string | null;
  readonly cron: string;
  readonly timeZone: string;
  readonly calendar: string | null;
  readonly policies: Readonly<Record<string, unknown>>;
  readonly handler: string | null;
  readonly enabled: boolean;
  /** Now; a pause that is over is none. */
  readonly paused: boolean;
  readonly pausedAt: Date | null;
  readonly pausedUntil: Date | null;
  readonly pausedBy: string | null;
  readonly pausedReason: string | null;
  readonly overriddenAt: Date | null;
  readonly overriddenBy: string | null;
  readonly overriddenReason: string | null;
  readonly flagIsOff: boolean;
  readonly yieldsTo: string | null;
  readonly removedAt: Date | null;
  readonly effectiveFrom: Date;
  /** Live instances that can run it. */
  readonly instances: number;
  readonly waiting: number;
  readonly running: number;
  readonly dead: number;
  readonly last: LastRun | null;
}

/** The newest occurrence that was started. */
export interface LastRun {
  readonly fireTime: Date;
  readonly status: RunStatus;
  readonly startedAt: Date;
  readonly finishedAt: Date | null;
}

/** What an operator did. */
export type KeptAction = Pick<JobAction, 'id' | 'at' | 'action' | 'jobName' | 'fireTime' | 'actor' | 'reason' | 'details'>;

/** Lists jobs, and what operators did to them; writes nothing. */
export class InventoryStore {
  private readonly query: Query;

  constructor(private readonly database: SchedulerDatabase) {
    this.query = queryOn(database.coordination);
  }

  /** By name, and the database's clock. */
  async jobs(): Promise<{ now: Date; jobs: InventoryRow[] }> {
    const { jobSchedule, jobRuns, jobInstances } = this.database.tables;
    const [clock] = await this.query<{ now: Date }>('select clock_timestamp() as now');
    const jobs = await this.query<Omit<InventoryRow, 'last'> & { last: StoredLastRun | null }>(
      `select job.name, job.owner, job.cron, job.time_zone as "timeZone", job.calendar, job.policies, job.handler, job.enabled,
              job.paused_at is not null and (job.paused_until is null or job.paused_until > clock_timestamp()) as paused,
              job.paused_at as "pausedAt", job.paused_until as "pausedUntil", job.paused_by as "pausedBy", job.paused_reason as "pausedReason",
              job.overridden_at as "overriddenAt", job.overridden_by as "overriddenBy", job.overridden_reason as "overriddenReason",
              ${this.database.tables.qualify('flag_is_off_1')}(job.policies ->> 'flag') as "flagIsOff",
              job.yields_to as "yieldsTo", job.removed_at as "removedAt", job.effective_from as "effectiveFrom",
             (select count(*)::integer
              from   ${jobInstances} instance
              where  instance.alive_until > clock_timestamp()
              and   (instance.jobs ? job.name or instance.handlers ? job.handler)) as instances,
              coalesce(open.waiting, 0) as waiting, coalesce(open.running, 0) as running, coalesce(open.dead, 0) as dead,
              last.last
       from   ${jobSchedule} job
       -- Each part by the index that has just its rows: all that are done are many.
       left   join (select job_name,
                           count(*) filter (where status not in ('running', 'fanned_out', 'dead'))::integer as waiting,
                           count(*) filter (where status in ('running', 'fanned_out'))::integer as running,
                           count(*) filter (where status = 'dead')::integer as dead
                    from  (select job_name, status from ${jobRuns} where status in ('queued', 'failed', 'orphaned')
                           union all
                           select job_name, status from ${jobRuns} where status in ('running', 'fanned_out')
                           union all
                           select job_name, status from ${jobRuns} where status = 'dead') unfinished
                    group  by job_name) open on open.job_name = job.name
       left   join lateral (select jsonb_build_object('fireTime', run.fire_time, 'status', run.status, 'startedAt', run.started_at, 'finishedAt', run.finished_at) as last
                            from   ${jobRuns} run
                            where  run.job_name = job.name
                            and    run.started_at is not null
                            order  by run.fire_time desc
                            limit  1) last on true
       order  by job.name`,
    );
    return { now: clock!.now, jobs: jobs.map((job) => ({ ...job, last: job.last && lastRun(job.last) })) };
  }

  /** The newest first. @param jobName null for those of all jobs, and of none */
  async actions(jobName: string | null, limit: number): Promise<KeptAction[]> {
    return this.query<KeptAction>(
      `select id, at, action, job_name as "jobName", fire_time as "fireTime", actor, reason, details
       from   ${this.database.tables.jobActions}
       where  $1::text is null
       or     job_name = $1
       order  by id desc
       limit  $2`,
      [jobName, limit],
    );
  }
}

type StoredLastRun = { fireTime: string; status: RunStatus; startedAt: string; finishedAt: string | null };

function lastRun({ fireTime, status, startedAt, finishedAt }: StoredLastRun): LastRun {
  return { fireTime: new Date(fireTime), status, startedAt: new Date(startedAt), finishedAt: finishedAt === null ? null : new Date(finishedAt) };
}

