import type { OwnedRun } from '../../domain/runs/run.js';
import type { WrittenEnd } from '../runs/job-run.store.js';
import { inOneMessage } from '../connection/one-message.js';
import { endFannedOut } from './page-ends.js';
import { lockPages } from './page-lock.js';
import type { SchedulerDatabase } from '../scheduler-database.js';

/** Lets go of a run that has published pages. */
export class FanOutStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /**
   * Completes a run that may have pages. If it has, it needs no lease and no owner from now on: the last of them ends it, and when all
   * have ended already, this does. Without pages it is done.
   * @returns null when the run is no longer ours
   */
  async complete(run: OwnedRun): Promise<WrittenEnd | null> {
    const { tables } = this.database;
    const { jobRuns, jobPages, schema } = tables;
    const [row] = await inOneMessage<WrittenEnd>(this.database.coordination, (json) => {
      const [jobName, fireTime] = [`(${json(run.jobName)} #>> '{}')`, `(${json(run.fireTime.toISOString())} #>> '{}')::timestamptz`];
      const key = (alias: string) => `${alias}.job_name = ${jobName} and ${alias}.fire_time = ${fireTime}`;
      const ours = `${key('run')} and run.attempt = ${run.attempt} and run.claimed_by = ${json(run.instanceId)} #>> '{}'`;
      return [
        lockPages(schema, jobName, fireTime),
        `update ${jobRuns} run
         set    status = case when counted.pages > 0 then 'fanned_out' else 'done' end,
                pages = nullif(counted.pages, 0),
                lease_until = case when counted.pages > 0 then null else run.lease_until end,
                finished_at = case when counted.pages > 0 then null else clock_timestamp() end
         from  (select count(*)::integer as pages from ${jobPages} page where ${key('page')}) counted
         where  ${ours}
         and    run.status = 'running'
         and    run.lease_until > clock_timestamp()`,
        endFannedOut(tables, key),
        `select run.status, run.reason, run.pages, run.error
         from   ${jobRuns} run
         where  ${ours}
         and    run.status in ('fanned_out', 'done', 'dead', 'cancelled')`,
      ];
    });
    return row ?? null;
  }
}
