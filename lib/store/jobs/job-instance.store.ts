import { numberOfNames } from '../../domain/declared-names.js';
import type { JobDefinition } from '../../domain/job-definition.js';
import type { Schedule } from '../../domain/schedule/schedule.js';
import type { FunctionValue } from '../connection/one-message.js';
import { queryOn, type Query } from '../connection/query.js';
import type { ReapedRun } from '../runs/reaper.store.js';
import { wakingUp } from '../wake-up.js';
import type { SchedulerDatabase } from '../scheduler-database.js';

/** A process that takes part. */
export interface Presence {
  readonly instanceId: string;
  /** How long it is taken to be there after each time it says so, in milliseconds. */
  readonly aliveMs: number;
  /** What its code declares. */
  readonly jobs: readonly JobDefinition[];
  /** The handlers it has for jobs made at run time. */
  readonly handlers: readonly string[];
}

/** See `JobInstance.declares`. */
export function declaredNumber({ jobs, handlers }: Presence): number {
  return numberOfNames(jobs.map(({ name }) => name), handlers);
}

/** As functions of the database take it. */
export function presenceValues(presence: Presence): FunctionValue[] {
  const { instanceId, aliveMs, jobs, handlers } = presence;
  return [
    instanceId,
    JSON.stringify(Object.fromEntries(jobs.map(({ name, schedule }) => [name, declaredSchedule(schedule)]))),
    JSON.stringify(handlers),
    declaredNumber(presence),
    aliveMs,
  ];
}

/** A schedule as an instance says that it declares it: without a calendar, as versions that know of none do. */
function declaredSchedule({ expression, timeZone, calendar }: Schedule): string[] {
  return calendar === null ? [expression, timeZone] : [expression, timeZone, calendar];
}

/** A job that no live instance can run. */
export interface UnregisteredJob {
  readonly name: string;
  readonly cron: string;
  readonly timeZone: string;
  /** Of a job made at run time: what would run it. */
  readonly handler: string | null;
}

/** Whoever knows a job has looked at its leases many times by then. */
const KNOWN_TO_NOBODY_AFTER = '1 minute';

/** Says that this process is there and what it declares, and that it goes. */
export class JobInstanceStore {
  private readonly query: Query;

  constructor(private readonly database: SchedulerDatabase) {
    this.query = queryOn(database.coordination);
  }

  /** The others look at once, for with every one that comes other jobs are theirs. */
  async announce(presence: Presence): Promise<void> {
    await this.database.call('job_instance_announce_1', presenceValues(presence));
  }

  /** The process takes no more part: nobody has to wait until it is taken for gone, and the others look at once whose its jobs are. */
  async leave(instanceId: string): Promise<void> {
    const { tables } = this.database;
    await this.query(`delete from ${tables.jobInstances} where id = $1 returning ${wakingUp(tables, 'jobs')}`, [instanceId]);
  }

  /** The handlers that live instances have for jobs made at run time. */
  async handlers(): Promise<string[]> {
    const rows = await this.query<{ handler: string }>(
      `select distinct jsonb_array_elements_text(handlers) as handler
       from   ${this.database.tables.jobInstances}
       where  alive_until > clock_timestamp()
       order  by 1`,
    );
    return rows.map(({ handler }) => handler);
  }

  /**
   * The jobs that no live instance declares any more, nor is about to take over under another name; also those made at run
   * time whose `handler` nobody has. They are not run.
   */
  async unregistered(): Promise<UnregisteredJob[]> {
    const rows = await this.database.call<{ name: string; cron: string; time_zone: string; handler: string | null }>('job_schedule_unregistered_1', []);
    return rows.map(({ name, cron, time_zone: timeZone, handler }) => ({ name, cron, timeZone, handler }));
  }

  /**
   * Makes runs claimable whose leases ran out and whose jobs nobody knows who could start them, dead when their attempts are
   * used up, or cancelled: their rows say what happened, and whoever knows the job again goes on with them. Besides those
   * named, any run that nobody has reaped for a minute: of a former name that no code remembers, or of a job without a row.
   */
  async orphanRunsOf(names: readonly string[]): Promise<ReapedRun[]> {
    const { jobRuns, jobSchedule } = this.database.tables;
    return this.query(
      `with expired as (
         select run.job_name, run.fire_time, run.attempt,
                case
                  when run.cancel_requested_at is not null then 'cancelled'
                  when run.attempt - run.releases >= (schedule.policies ->> 'maxAttempts')::integer then 'dead'
                  else 'orphaned'
                end as becomes
         from   ${jobRuns} run
         left   join ${jobSchedule} schedule on schedule.name = run.job_name
         where  run.status = 'running'
         and    run.lease_until <= clock_timestamp()
         and   (run.job_name = any ($1::text[]) or run.lease_until <= clock_timestamp() - interval '${KNOWN_TO_NOBODY_AFTER}')
         order  by run.job_name, run.fire_time
         for    update of run skip locked
       )
       update ${jobRuns} run
       set    status = expired.becomes,
              reason = case when expired.becomes = 'cancelled' then run.cancel_reason || '; ' else '' end || 'the lease of ' || run.claimed_by || ' ran out, and no live instance knows the job',
              error = jsonb_build_object(
                'name', 'LeaseExpired',
                'message', 'The lease of ' || run.claimed_by || ' ran out, and no live instance knows the job.',
                'stack', null),
              finished_at = clock_timestamp(),
              next_attempt_at = case when expired.becomes = 'orphaned' then clock_timestamp() end
       from   expired
       where  run.job_name = expired.job_name
       and    run.fire_time = expired.fire_time
       and    run.status = 'running'
       and    run.attempt = expired.attempt
       and    run.lease_until <= clock_timestamp()
       returning run.job_name as "jobName", run.fire_time as "fireTime", run.status, run.attempt, run.claimed_by as "claimedBy", run.reason,
                 extract(epoch from clock_timestamp() - run.lease_until)::float8 * 1000 as "overdueMs"`,
      [names],
    );
  }
}
