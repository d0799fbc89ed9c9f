import { isHeld } from '../jobs/held.js';
import { queryOn, type Query } from '../connection/query.js';
import type { SchedulerDatabase } from '../scheduler-database.js';

/** A job that says how often it should succeed. Milliseconds. */
export interface ExpectedJob {
  readonly name: string;
  readonly withinMs: number;
  /** How old an occurrence may be that is caught up. */
  readonly catchUpWindowMs: number;
}

/** When a job's success is overdue. */
export interface SuccessOutlook {
  readonly jobName: string;
  readonly lastSuccessAt: Date | null;
  /** Milliseconds from now; not more than zero when it is. */
  readonly overdueInMs: number;
}

/** Runs end out of order where old ones are caught up: the last success is among so many of the newest. */
const NEWEST = 100;

/** Looks when jobs last succeeded. */
export class OverdueStore {
  private readonly query: Query;

  constructor(private readonly database: SchedulerDatabase) {
    this.query = queryOn(database.coordination);
  }

  /**
   * The time begins with the last success, with the job's schedule, or with the end of its last pause, whichever came last.
   * A job that is held back is not waited for. What was done under a former name counts.
   */
  async outlook(jobs: readonly ExpectedJob[]): Promise<SuccessOutlook[]> {
    const { jobRuns, jobSchedule } = this.database.tables;
    const rows = await this.query<{ name: string; success_at: Date | null; overdue_in_ms: number }>(
      `select job.name, last.success_at,
              extract(epoch from greatest(last.success_at, schedule.effective_from, held.until, schedule.paused_until) - clock_timestamp())::float8 * 1000
                + job.within_ms as overdue_in_ms
       from   unnest($1::text[], $2::float8[], $3::float8[]) as job (name, within_ms, window_ms)
       join   ${jobSchedule} schedule on schedule.name = job.name
       cross  join lateral (
                select max(newest.finished_at) as success_at
                from  (select job.name
                       union all
                       select former.name
                       from   ${jobSchedule} former
                       where  former.yields_to = job.name) named
                cross  join lateral (
                         select run.finished_at
                         from   ${jobRuns} run
                         where  run.job_name = named.name
                         and    run.status = 'done'
                         and    run.fire_time > clock_timestamp() - (job.within_ms + job.window_ms) * interval '1 millisecond'
                         order  by run.fire_time desc
                         limit  ${NEWEST}) newest) last
       cross  join lateral (
                select max((hold ->> 'until')::timestamptz) as until
                from   jsonb_array_elements(schedule.earlier_holds) hold) held
       where  schedule.removed_at is null
       and    schedule.yields_to is null
       and    not ${isHeld(jobSchedule, 'job.name')}`,
      [jobs.map(({ name }) => name), jobs.map(({ withinMs }) => withinMs), jobs.map(({ catchUpWindowMs }) => catchUpWindowMs)],
    );
    return rows.map((row) => ({ jobName: row.name, lastSuccessAt: row.success_at, overdueInMs: row.overdue_in_ms }));
  }
}
