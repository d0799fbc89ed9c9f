import { migration } from './frozen.js';

/**
 * Creates what makes partitions, drops them, prunes the tables that have none, and looks for successes that are
 * overdue.
 */
export const createUpkeepFunctions = migration('CreateUpkeepFunctions1796000000016', {
  up: [
    // The key of the lock behind which partitions are made and dropped: a month is not made while it is dropped.
    `create or replace function @schema.partition_lock_1() returns bigint language sql immutable as $$
      select hashtextextended('nestjs-distributed-cron:partitions:' || @schema_text, 0)
    $$`,

    // The partitions of the three tables that are not there, of months given by their first instants, in their order;
    // is_in_the_way where a table has the name of one. It asks the catalog's tables: to_regclass answers from a cache,
    // which does not see what another replica has just made.
    `create or replace function @schema.partitions_missing_1(its_months timestamptz[])
    returns table (partition_name text, partitioned text, partition_month timestamptz, is_in_the_way boolean)
    language sql volatile set search_path = @schema, pg_temp set jit = off as $$
      select wanted.name, wanted.partitioned, wanted.month, child.oid is not null
      from  (select asked.month, asked.turn, tables.name as partitioned,
                    tables.name || to_char(asked.month at time zone 'UTC', '_YYYY_MM') as name, pg_namespace.oid as schema
             from   unnest(its_months) with ordinality as asked (month, turn)
             cross  join unnest(array['job_runs', 'receipts', 'job_pages']) as tables (name)
             cross  join pg_namespace
             where  nspname = @schema_text) wanted
      join   pg_class parent on parent.relname = wanted.partitioned and parent.relnamespace = wanted.schema
      left   join pg_class child on child.relname = wanted.name and child.relnamespace = wanted.schema
      left   join pg_inherits on inhrelid = child.oid and not inhdetachpending
      where  pg_inherits.inhparent is distinct from parent.oid
      order  by wanted.turn
    $$`,

    // Makes those that are missing, one replica at a time; what is in the way stays. They are attached instead of
    // created in place: that would lock the whole table against every claim, attaching an empty one does not. It runs
    // with the rights of its owner, as all that changes partitions: the role that calls it owns nothing. Pages of
    // receipts are filled: nothing comes in them but their own closing, and a page that is never full is never tidied
    // up before the next vacuum. In the others there is room for renewals of leases.
    `create or replace function @schema.partitions_make_1(its_months timestamptz[])
    returns table (partition_name text, partitioned text, partition_month timestamptz, is_in_the_way boolean)
    language plpgsql security definer set search_path = @schema, pg_temp set jit = off as $$
    declare
      in_iso constant text := 'YYYY-MM-DD"T"HH24:MI:SS"Z"';
    begin
      perform pg_advisory_xact_lock(partition_lock_1());
      for partition_name, partitioned, partition_month, is_in_the_way in select * from partitions_missing_1(its_months) loop
        if not is_in_the_way then
          execute format(
            'create table %I (like %I including defaults including constraints) with (fillfactor = %s)',
            partition_name, partitioned, case partitioned when 'receipts' then 100 else 80 end);
          execute format(
            'alter table %I attach partition %I for values from (%L) to (%L)',
            partitioned, partition_name,
            to_char(partition_month at time zone 'UTC', in_iso), to_char(partition_month at time zone 'UTC' + interval '1 month', in_iso));
        end if;
        return next;
      end loop;
    end $$`,

    // The partition is in that state, and has been dropped since then, or not at all: nobody else has been at it. No
    // other table ever is: what is detached bears a mark, and only a partition of the three gets one.
    `create or replace function @schema.partition_is_still_1(its_name text, its_state text, its_since timestamptz) returns boolean
    language sql volatile set search_path = @schema, pg_temp set jit = off as $$
      select exists (
        select
        from   pg_class child
        join   pg_namespace on pg_namespace.oid = child.relnamespace
        left   join pg_inherits on inhrelid = child.oid
        left   join pg_class parent on parent.oid = inhparent and parent.relnamespace = child.relnamespace
        where  nspname = @schema_text
        and    child.relname = its_name
        and    child.relkind in ('r', 'p')
        and   (parent.relname in ('job_runs', 'receipts', 'job_pages') or inhparent is null and its_since is not null)
        and    case when inhrelid is null then 'detached' when inhdetachpending then 'detaching' else 'attached' end = its_state
        and    substring(obj_description(child.oid, 'pg_class') from '^nestjs-distributed-cron drops this: .*, since ([^ ]+)$')::timestamptz
                 is not distinct from its_since)
    $$`,

    // What keeps the months that a partition holds, in all three tables: each is looked for in an index of what is
    // open. Pages and receipts are also kept by every run that is left of these months, whatever became of it: it may
    // be replayed. detached is the partition's own name when its table does not have it any more.
    `create or replace function @schema.partition_open_1(its_table text, its_from timestamptz, its_until timestamptz, detached text)
    returns table (runs integer, pages integer, in_doubt integer, backfills integer)
    language plpgsql set search_path = @schema, pg_temp set jit = off as $$
    begin
      return query execute format(
        'select (select count(*)::integer from %1$I where fire_time >= $1 and fire_time < $2 and status in (''running'', ''fanned_out''))
                  + (select count(*)::integer from %1$I where fire_time >= $1 and fire_time < $2 and status in (''queued'', ''failed'', ''orphaned''))
                  + (select count(*)::integer from (select from %1$I where fire_time >= $1 and fire_time < $2 and $3 limit 1) one),
                (select count(*)::integer from %2$I where fire_time >= $1 and fire_time < $2 and status in (''queued'', ''running'', ''failed'')),
                (select count(*)::integer from %3$I where fire_time >= $1 and fire_time < $2 and state in (''open'', ''in_doubt'')),
                (select count(*)::integer
                 from   job_backfills
                 where  finished_at is null
                 and    cancelled_at is null
                 and    range_from < $2
                 and    range_to >= $1)',
        case when its_table = 'job_runs' then coalesce(detached, its_table) else 'job_runs' end,
        case when its_table = 'job_pages' then coalesce(detached, its_table) else 'job_pages' end,
        case when its_table = 'receipts' then coalesce(detached, its_table) else 'receipts' end)
      using its_from, its_until, its_table <> 'job_runs';
    end $$`,

    // Marks a partition as about to be dropped. Returns since when it is the caller's; null when another has begun, or
    // it is gone.
    `create or replace function @schema.partition_mark_1(its_name text, its_state text, its_since timestamptz, its_mark text) returns timestamptz
    language plpgsql security definer set search_path = @schema, pg_temp set jit = off as $$
    declare
      marked_at timestamptz := date_trunc('milliseconds', clock_timestamp());
    begin
      if not pg_try_advisory_xact_lock(partition_lock_1()) or not partition_is_still_1(its_name, its_state, its_since) then
        return null;
      end if;
      perform set_config('lock_timeout', '2s', true);
      execute format('comment on table %I is %L', its_name, its_mark || to_char(marked_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'));
      return marked_at;
    end $$`,

    // What is still attached was not begun: who detaches it by hand from now on is not to lose it.
    `create or replace function @schema.partition_unmark_1(its_name text) returns void
    language plpgsql security definer set search_path = @schema, pg_temp set jit = off as $$
    begin
      perform pg_advisory_xact_lock(partition_lock_1());
      perform set_config('lock_timeout', '2s', true);
      if exists (
        select
        from   pg_class child
        join   pg_namespace on pg_namespace.oid = child.relnamespace
        join   pg_inherits on inhrelid = child.oid and not inhdetachpending
        join   pg_class parent on parent.oid = inhparent and parent.relnamespace = child.relnamespace
        where  nspname = @schema_text
        and    child.relname = its_name
        and    parent.relname in ('job_runs', 'receipts', 'job_pages'))
      then
        execute format('comment on table %I is null', its_name);
      end if;
    end $$`,

    // Detaches a partition for a role that does not own it: concurrently it can't be done in a function. All claims
    // wait behind it for as long as it waits for transactions that have the table: hardly at all, and it is called again.
    `create or replace function @schema.partition_detach_1(its_table text, its_name text, its_state text, its_since timestamptz)
    returns boolean
    language plpgsql security definer set search_path = @schema, pg_temp set jit = off set lock_timeout = '100ms' as $$
    begin
      if not pg_try_advisory_xact_lock(partition_lock_1()) or not partition_is_still_1(its_name, its_state, its_since) then
        return false;
      end if;
      execute format(
        'alter table %I detach partition %I %s', its_table, its_name, case its_state when 'detaching' then 'finalize' else '' end);
      return true;
    end $$`,

    // Drops a detached partition, or gives it back, when something was begun in it meanwhile, or the retention is
    // longer by now. busy: a replica that was frozen since it detached it. Another may have given it back, and a person
    // may have detached it.
    `create or replace function @schema.partition_drop_1(
      its_table text, its_name text, its_from timestamptz, its_until timestamptz, its_since timestamptz, older_than timestamptz)
    returns table (verdict text, dead integer, runs integer, pages integer, in_doubt integer, backfills integer)
    language plpgsql security definer set search_path = @schema, pg_temp set jit = off as $$
    begin
      perform pg_advisory_xact_lock(partition_lock_1());
      dead := 0;
      if not partition_is_still_1(its_name, 'detached', its_since) then
        verdict := 'busy';
        return next;
        return;
      end if;
      perform set_config('lock_timeout', '2s', true);
      execute format('lock table %I in access exclusive mode', its_name);
      select found_open.runs, found_open.pages, found_open.in_doubt, found_open.backfills
      into   runs, pages, in_doubt, backfills
      from   partition_open_1(its_table, its_from, its_until, its_name) found_open;
      if its_until > older_than or runs + pages + in_doubt + backfills > 0 then
        execute format(
          'alter table %I attach partition %I for values from (%s) to (%L)',
          its_table, its_name, case when isfinite(its_from) then quote_literal(its_from) else 'minvalue' end, its_until);
        execute format('comment on table %I is null', its_name);
        verdict := 'kept';
      else
        if its_table = 'job_runs' then
          execute format('select count(*) from %I where status = ''dead''', its_name) into dead;
        end if;
        execute format('drop table %I', its_name);
        verdict := 'dropped';
      end if;
      return next;
    end $$`,

    // Not for everybody who may use the schema.
    `revoke execute on function @schema.partitions_make_1(timestamptz[]) from public`,
    `revoke execute on function @schema.partition_mark_1(text, text, timestamptz, text) from public`,
    `revoke execute on function @schema.partition_unmark_1(text) from public`,
    `revoke execute on function @schema.partition_detach_1(text, text, text, timestamptz) from public`,
    `revoke execute on function @schema.partition_drop_1(text, text, timestamptz, timestamptz, timestamptz, timestamptz) from public`,

    // When the last of the holds on a job ended that are over; null where there was none, or nobody can read them.
    `create or replace function @schema.job_last_held_until_1(earlier_holds jsonb) returns timestamptz
    language plpgsql stable set search_path = @schema, pg_temp set jit = off as $$
    begin
      return (select max((hold ->> 'until')::timestamptz) from jsonb_array_elements(earlier_holds) hold);
    exception
      when data_exception then
        return null;
    end $$`,

    // When jobs last succeeded, also under a former name, and how long it is until that is overdue: the time begins
    // with the last success, with the job's schedule, or with the end of its last pause, whichever came last. A job
    // that is held back is not waited for. Runs end out of order where old ones are caught up: the last success is
    // among the newest.
    `create or replace function @schema.job_success_outlook_1(its_jobs text[], its_within_ms float8[], its_windows_ms float8[])
    returns table (name text, success_at timestamptz, overdue_in_ms float8)
    language sql volatile set search_path = @schema, pg_temp set jit = off as $$
      select job.name, last.success_at,
             extract(epoch from greatest(last.success_at, schedule.effective_from, job_last_held_until_1(schedule.earlier_holds), schedule.paused_until)
                                - clock_timestamp())::float8 * 1000
               + job.within_ms
      from   unnest(its_jobs, its_within_ms, its_windows_ms) as job (name, within_ms, window_ms)
      join   job_schedule schedule on schedule.name = job.name
      cross  join lateral (
               select max(newest.finished_at) as success_at
               from  (select job.name
                      union all
                      select former.name
                      from   job_schedule former
                      where  former.yields_to = job.name) named
               cross  join lateral (
                        select run.finished_at
                        from   job_runs run
                        where  run.job_name = named.name
                        and    run.status = 'done'
                        and    run.fire_time > clock_timestamp() - (job.within_ms + job.window_ms) * interval '1 millisecond'
                        order  by run.fire_time desc
                        limit  100) newest) last
      where  schedule.removed_at is null
      and    schedule.yields_to is null
      and    not job_is_held_1(schedule.enabled, schedule.paused_at, schedule.paused_until)
    $$`,

    // Forgets what operators did, which backfills there were and what was told, once that is old enough: one batch of
    // each, the oldest first; one replica at a time. True: there may be more.
    `create or replace function @schema.prune_1(actions_ms bigint, alerts_ms bigint, most integer) returns boolean
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
    declare
      pruned integer;
      is_more boolean := false;
    begin
      if not pg_try_advisory_xact_lock(hashtextextended('nestjs-distributed-cron:prune:' || @schema_text, 0)) then
        return false;
      end if;
      -- What still holds stays, however old: who paused, disabled or overrode a job, turned a flag off, or skipped what is to come.
      with old as (
        select action.id
        from   job_actions action
        where  action.at < clock_timestamp() - actions_ms * interval '1 millisecond'
        and    not exists (
                 select from job_schedule job
                 where  job.name = action.job_name
                 and   (action.action = 'pause' and job.paused_at is not null and action.at >= job.paused_at
                        or action.action = 'override' and job.overridden_at is not null and action.at >= job.overridden_at
                        or action.action = 'disable' and not job.enabled and not exists (
                             select from job_actions later
                             where  later.job_name = action.job_name
                             and    later.action = 'disable'
                             and    later.id > action.id)))
        and    not exists (
                 select from job_flags flag
                 where  action.action = 'set-flag'
                 and    flag.name = action.details ->> 'flag'
                 and    not flag.is_on
                 and    action.at >= flag.changed_at)
        and    not (action.action = 'skip' and action.fire_time > clock_timestamp())
        order  by action.id
        limit  most
        for    update of action skip locked
      )
      delete from job_actions action
      using  old
      where  action.id = old.id;
      get diagnostics pruned = row_count;
      is_more := is_more or pruned = most;
      -- A backfill that is active stays, and so does one whose runs have not all ended.
      with old as (
        select backfill.id
        from   job_backfills backfill
        where  coalesce(backfill.cancelled_at, backfill.finished_at) < clock_timestamp() - actions_ms * interval '1 millisecond'
        and   (select open = 0 from backfill_open_1(backfill.id))
        order  by backfill.created_at
        limit  most
        for    update of backfill skip locked
      )
      delete from job_backfills backfill
      using  old
      where  backfill.id = old.id;
      get diagnostics pruned = row_count;
      is_more := is_more or pruned = most;
      with old as (
        select told.key
        from   job_alerts told
        where  told.told_at < clock_timestamp() - alerts_ms * interval '1 millisecond'
        order  by told.told_at
        limit  most
        for    update skip locked
      )
      delete from job_alerts alert
      using  old
      where  alert.key = old.key;
      get diagnostics pruned = row_count;
      return is_more or pruned = most;
    end $$`,
  ],
  down: [
    `drop function if exists @schema.prune_1`,
    `drop function if exists @schema.job_success_outlook_1`,
    `drop function if exists @schema.job_last_held_until_1`,
    `drop function if exists @schema.partition_detach_1`,
    `drop function if exists @schema.partition_drop_1`,
    `drop function if exists @schema.partition_unmark_1`,
    `drop function if exists @schema.partition_mark_1`,
    `drop function if exists @schema.partition_open_1`,
    `drop function if exists @schema.partition_is_still_1`,
    `drop function if exists @schema.partitions_make_1`,
    `drop function if exists @schema.partitions_missing_1`,
    `drop function if exists @schema.partition_lock_1`,
  ],
});
