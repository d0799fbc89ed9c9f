import { isOff } from '../jobs/flag-off.js';
import { heldUntil } from '../jobs/held.js';
import { isRemoved, removedJobs } from '../jobs/is-removed.js';
import type { Tables } from '../tables.js';

/**
 * SQL for when the reaper has something to do: the earliest lease that ends, the earliest attempt that is due, whether
 * anything of a removed job waits, and whether a lease has run out of a job that is not known here.
 * @param names SQL for a jsonb array of the jobs' names
 */
export function reaperOutlook(tables: Tables, names: string): string {
  const { jobRuns, jobSchedule, jobFlags } = tables;
  return `
      with known as materialized (
        select jsonb_array_elements_text(${names}) as name
      )
      select clock_timestamp() as now,
            (select min(lease_until)
             from   ${jobRuns}
             where  status = 'running'
             and   (job_name in (select name from known) or job_name in (${removedJobs(tables)}))) as next_expiry,
            (select nullif(min(greatest(next_attempt_at, fire_time, ${heldUntil(jobSchedule, 'job_name')})), 'infinity')
             from   ${jobRuns}
             where  status in ('queued', 'failed', 'orphaned')
             and    job_name in (select name from known)
             and    not ${isRemoved(tables, 'job_name')}
             and    not ${isOff(jobFlags, `(select policies ->> 'flag' from ${jobSchedule} declared where declared.name = job_name)`)}) as next_attempt,
             exists (
               select from ${jobRuns}
               where  status in ('queued', 'failed', 'orphaned')
               and    job_name in (${removedJobs(tables)})) as removed_wait,
             exists (
               select from ${jobRuns}
               where  status = 'running'
               and    lease_until <= clock_timestamp()
               and    job_name not in (select name from known)
               and    job_name not in (${removedJobs(tables)})) as strays`;
}
