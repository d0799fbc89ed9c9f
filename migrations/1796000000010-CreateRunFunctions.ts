import { migration } from './frozen.js';

/** Creates the transitions of a run. Each names the attempt that it belongs to, in the statement itself. */
export const createRunFunctions = migration('CreateRunFunctions1796000000010', {
  up: [
    // Extends the leases of one instance's runs. A lease that ran out is never revived, one that another attempt took is not touched,
    // and a row that somebody holds is passed over, so that it does not hold up the others: it is ours, and has no lease_until here.
    `create or replace function @schema.job_run_renew_1(
      ids text[], jobs text[], fire_times timestamptz[], attempts integer[], instances text[], leases_ms integer[])
    returns table (id text, renewed_until timestamptz)
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
    begin
      return query
      with held as materialized (
        select *
        from   unnest(ids, jobs, fire_times, attempts, instances, leases_ms)
                 as held (id, job_name, fire_time, attempt, claimed_by, lease_ms)
      ),
      ours as (
        select held.id
        from   held
        join   job_runs run on run.job_name = held.job_name and run.fire_time = held.fire_time
        where  run.attempt = held.attempt
        and    run.claimed_by = held.claimed_by
        and    run_is_leased_1(run.status, run.lease_until)
      ),
      free as (
        select run.job_name, run.fire_time, held.id, held.attempt, held.claimed_by, held.lease_ms
        from   job_runs run
        join   held on held.job_name = run.job_name and held.fire_time = run.fire_time
        where  run.attempt = held.attempt
        and    run.claimed_by = held.claimed_by
        and    run_is_leased_1(run.status, run.lease_until)
        for    no key update of run skip locked
      ),
      renewed as (
        update job_runs run
        set    lease_until = clock_timestamp() + free.lease_ms * interval '1 millisecond'
        from   free
        where  run.job_name = free.job_name
        and    run.fire_time = free.fire_time
        and    run.attempt = free.attempt
        and    run.claimed_by = free.claimed_by
        and    run_is_leased_1(run.status, run.lease_until)
        returning free.id, run.lease_until
      )
      select ours.id, renewed.lease_until
      from   ours
      left   join renewed on renewed.id = ours.id;
    end $$`,
  ],
  down: [`drop function if exists @schema.job_run_renew_1`],
});
