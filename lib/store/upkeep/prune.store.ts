import type { Query } from '../connection/query.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import { inTransaction, tryLockName } from '../connection/transaction.js';

/** How long things are kept, in milliseconds. */
export interface Kept {
  readonly actionsMs: number;
  readonly alertsMs: number;
}

/** Forgets what operators did, which backfills there were and what was told, once that is old enough. */
export class PruneStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /**
   * One batch of each, the oldest first; one replica at a time, the others find nothing to do.
   * @returns true when there may be more
   */
  async prune({ actionsMs, alertsMs }: Kept, limit: number): Promise<boolean> {
    const { coordination, tables } = this.database;
    return inTransaction(coordination, async (query) => {
      if (!(await tryLockName(query, `nestjs-distributed-cron:prune:${tables.schema}`))) return false;
      const pruned = [await this.actions(query, actionsMs, limit), await this.backfills(query, actionsMs, limit), await this.alerts(query, alertsMs, limit)];
      return pruned.some((count) => count === limit);
    });
  }

  /** What still holds stays, however old: who paused, disabled or overrode a job, turned a flag off, or skipped what is to come. */
  private async actions(query: Query, keptMs: number, limit: number): Promise<number> {
    const { jobActions, jobSchedule, jobFlags } = this.database.tables;
    const pruned = await query(
      `with old as (
         select action.id
         from   ${jobActions} action
         where  action.at < clock_timestamp() - $1 * interval '1 millisecond'
         and    not exists (
                  select from ${jobSchedule} job
                  where  job.name = action.job_name
                  and   (action.action = 'pause' and job.paused_at is not null and action.at >= job.paused_at
                         or action.action = 'override' and job.overridden_at is not null and action.at >= job.overridden_at
                         or action.action = 'disable' and not job.enabled and not exists (
                              select from ${jobActions} later
                              where  later.job_name = action.job_name
                              and    later.action = 'disable'
                              and    later.id > action.id)))
         and    not exists (
                  select from ${jobFlags} flag
                  where  action.action = 'set-flag'
                  and    flag.name = action.details ->> 'flag'
                  and    not flag.is_on
                  and    action.at >= flag.changed_at)
         and    not (action.action = 'skip' and action.fire_time > clock_timestamp())
         order  by action.id
         limit  $2
         for    update of action skip locked
       )
       delete from ${jobActions} action
       using  old
       where  action.id = old.id
       returning 1`,
      [keptMs, limit],
    );
    return pruned.length;
  }

  /** One that is active stays, and so does one whose runs have not all ended. */
  private async backfills(query: Query, keptMs: number, limit: number): Promise<number> {
    const { jobBackfills, jobRuns } = this.database.tables;
    const pruned = await query(
      `with old as (
         select backfill.id
         from   ${jobBackfills} backfill
         where  coalesce(backfill.cancelled_at, backfill.finished_at) < clock_timestamp() - $1 * interval '1 millisecond'
         and    not exists (
                  select from ${jobRuns} run
                  where  run.backfill_id = backfill.id
                  and    run.status in ('queued', 'running', 'fanned_out', 'failed', 'orphaned'))
         order  by backfill.created_at
         limit  $2
         for    update of backfill skip locked
       )
       delete from ${jobBackfills} backfill
       using  old
       where  backfill.id = old.id
       returning 1`,
      [keptMs, limit],
    );
    return pruned.length;
  }

  private async alerts(query: Query, keptMs: number, limit: number): Promise<number> {
    const { jobAlerts } = this.database.tables;
    const pruned = await query(
      `with old as (
         select key
         from   ${jobAlerts}
         where  told_at < clock_timestamp() - $1 * interval '1 millisecond'
         order  by told_at
         limit  $2
         for    update skip locked
       )
       delete from ${jobAlerts} alert
       using  old
       where  alert.key = old.key
       returning 1`,
      [keptMs, limit],
    );
    return pruned.length;
  }
}
