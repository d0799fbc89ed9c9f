import { migration, VERB } from './frozen.js';

/**
 * Creates what changes the schedules that all replicas follow, and what decides about missed occurrences. Fire times
 * can't be computed here: an instance reads, plans, and has one function write the plan, if what it read still holds.
 */
export const createScheduleFunctions = migration('CreateScheduleFunctions1796000000014', {
  up: [
    // One change of schedules at a time. Revisions are therefore in the order of the commits, and whoever has seen one
    // has seen all that were before it.
    `create or replace function @schema.job_schedule_revision_1() returns bigint
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
    begin
      perform pg_advisory_xact_lock(hashtextextended('nestjs-distributed-cron:schedules:' || @schema_text, 0));
      return (select coalesce(max(revision), 0) + 1 from job_schedule);
    end $$`,

    // A schedule as an instance says that it declares it: without a calendar where it has none.
    `create or replace function @schema.schedule_as_declared_1(cron text, time_zone text, calendar text) returns jsonb
    language sql immutable as $$
      select case when calendar is null then jsonb_build_array(cron, time_zone) else jsonb_build_array(cron, time_zone, calendar) end
    $$`,

    // Two schedules are not the same: expression, zone or calendar.
    `create or replace function @schema.schedules_differ_1(
      cron text, time_zone text, calendar text, other_cron text, other_time_zone text, other_calendar text) returns boolean
    language sql immutable as $$
      select (cron, time_zone, calendar) is distinct from (other_cron, other_time_zone, other_calendar)
    $$`,

    // A change holds from when it was planned. One that comes later, because its process stood still, would act on the
    // past.
    `create or replace function @schema.plan_is_fresh_1(planned_at timestamptz) returns boolean language sql volatile as $$
      select clock_timestamp() < planned_at + interval '5 seconds'
    $$`,

    // Waits for claims of the job that are under way, and lets none begin until the transaction ends. False: its row is
    // not as it was read.
    `create or replace function @schema.job_schedule_hold_1(its_job text, its_seen text) returns boolean
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
    begin
      perform job_lock_all_1(array[its_job]);
      perform
      from   job_schedule
      where  name = its_job
      and    xmin::text = its_seen
      for    no key update;
      return found;
    end $$`,

    // How many occurrences of the job have a row, later than an instant and up to another. A plan counts them, too.
    `create or replace function @schema.job_decided_between_1(its_job text, later_than timestamptz, up_to timestamptz) returns bigint
    language sql stable as $$
      select count(*)
      from   @schema.job_runs run
      where  run.job_name = its_job
      and    run.fire_time > later_than
      and    run.fire_time <= up_to
      and    @schema.run_is_planned_1(run.trigger)
    $$`,

    // Records what a schedule that is being replaced leaves undecided, while its job is held. False: something was
    // decided since it was planned.
    `create or replace function @schema.job_schedule_supersede_1(its_job text, planned jsonb) returns boolean
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
    declare
      its_from timestamptz := planned ->> 'from';
    begin
      if not plan_is_fresh_1((planned ->> 'at')::timestamptz)
         or job_decided_between_1(its_job, its_from, 'infinity') <> (planned ->> 'rows')::bigint then
        return false;
      end if;
      insert into job_runs (job_name, fire_time, status, trigger, reason, finished_at, gap_from, gap_count)
      select its_job, gap.until, 'skipped', 'catch-up', gap.reason, clock_timestamp(), gap.from, gap.count
      from   jsonb_to_record(nullif(planned -> 'gap', 'null')) as gap ("from" timestamptz, until timestamptz, count integer, reason text)
      where  gap.until is not null
      on     conflict (job_name, fire_time) do nothing;
      return true;
    end $$`,

    // Says that an instance is there and what it declares. The others look at once: with every one that comes other
    // jobs are theirs.
    `create or replace function @schema.job_instance_announce_1(
      its_id text, its_jobs jsonb, its_handlers jsonb, its_declares bigint, alive_ms bigint) returns void
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
    begin
      delete from job_instances
      where  id in (select id from job_instances where alive_until < clock_timestamp() - interval '1 day' for update skip locked);
      insert into job_instances (id, jobs, handlers, declares, alive_until)
      values (its_id, its_jobs, its_handlers, its_declares, clock_timestamp() + alive_ms * interval '1 millisecond')
      on     conflict (id) do update
      set    jobs = excluded.jobs,
             handlers = excluded.handlers,
             declares = excluded.declares,
             alive_until = excluded.alive_until;
      perform wake_1('jobs');
    end $$`,

    // Writes what the code of an instance declares; without an id, of one that takes no part. Behind somebody who holds a
    // job's row it gives up, so that others start, and comes again; many that start at once wait for each other. True: the server was away
    // until just now, and there are instances that were not heard of since.
    `create or replace function @schema.job_schedule_declare_1(
      its_id text, its_jobs jsonb, its_handlers jsonb, its_declares bigint, alive_ms bigint, its_declared jsonb) returns boolean
    ${VERB.replace('2s', '10s')} as $$
    declare
      its_revision bigint := job_schedule_revision_1();
      its_names text[] := array(select declared.name from jsonb_to_recordset(its_declared) as declared (name text));
    begin
      if its_id is not null then
        perform job_instance_announce_1(its_id, its_jobs, its_handlers, its_declares, alive_ms);
      end if;
      -- A former name that is declared beside the later one is a new job's: it waits for nobody, and has no past and no pause.
      update job_schedule
      set    yields_to = null,
             enabled = true,
             disabled_at = null,
             paused_at = null,
             paused_until = null,
             paused_by = null,
             paused_reason = null,
             earlier_holds = '[]',
             effective_from = clock_timestamp(),
             decided_until = clock_timestamp(),
             revision = its_revision
      where  name = any (its_names)
      and    yields_to = any (its_names);
      insert into job_schedule as stored (name, cron, time_zone, calendar, owner, policies, revision, yields_to)
      select declared.name, declared.cron, declared.time_zone, declared.calendar, declared.owner, declared.policies, its_revision,
            (select nullif(coalesce(former.yields_to, former.name), declared.name)
             from   job_schedule former
             join   jsonb_array_elements_text(declared.previously) with ordinality as called (name, position) on called.name = former.name
             where  former.removed_at is null
             and    coalesce(former.yields_to, former.name) <> all (its_names)
             order  by called.position
             limit  1)
      from   jsonb_to_recordset(its_declared)
               as declared (name text, cron text, time_zone text, calendar text, owner text, policies jsonb, previously jsonb)
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
               when stored.removed_at is not null or stored.handler is not null then its_revision
               when stored.yields_to is null and excluded.yields_to is not null then its_revision
               else stored.revision
             end;
      return clock_timestamp() < pg_postmaster_start_time() + 2 * alive_ms * interval '1 millisecond'
        and exists (select from job_instances where alive_until <= clock_timestamp());
    end $$`,

    // Of the jobs as an instance declares them, those that have another schedule or name, and that nobody else who is
    // live holds to it.
    // seen changes with every change of the rows.
    `create or replace function @schema.job_schedule_free_1(its_instance text, its_declared jsonb)
    returns table (name text, yields boolean, holder text, cron text, time_zone text, calendar text, decided_until timestamptz, edited boolean, seen text)
    language sql volatile set search_path = @schema, pg_temp set jit = off as $$
      select stored.name, stored.yields_to is not null, holder.name, holder.cron, holder.time_zone, holder.calendar, holder.decided_until,
             holder.overridden_at is null
               and schedules_differ_1(holder.cron, holder.time_zone, holder.calendar, declared.cron, declared.time_zone, declared.calendar),
             stored.xmin::text || ' ' || coalesce(holder.xmin::text, '')
      from   jsonb_to_recordset(its_declared) as declared (name text, cron text, time_zone text, calendar text)
      join   job_schedule stored on stored.name = declared.name
      left   join job_schedule holder on holder.name = coalesce(stored.yields_to, stored.name)
      where (stored.yields_to is not null
             or stored.overridden_at is null
               and schedules_differ_1(stored.cron, stored.time_zone, stored.calendar, declared.cron, declared.time_zone, declared.calendar))
      and    not exists (
               select from job_instances other
               where  other.id <> its_instance
               and    other.alive_until > clock_timestamp()
               and    case
                        when stored.yields_to is null
                        then other.jobs -> stored.name = schedule_as_declared_1(stored.cron, stored.time_zone, stored.calendar)
                        else other.jobs ? stored.yields_to
                      end)
      order  by stored.name
    $$`,

    // Gives jobs the schedules, or the names, that an instance declares. Those that are not as they were planned are
    // left alone.
    // Returns the names of those that have changed: the jobs, and those that now yield to them.
    `create or replace function @schema.job_schedule_take_over_1(its_instance text, planned_at timestamptz, planned jsonb) returns setof text
    ${VERB} as $$
    declare
      its_revision bigint;
      its_names text[] := array(
        select named.name
        from   jsonb_to_recordset(planned) as wanted (name text, holder text)
        cross  join unnest(array[wanted.name, wanted.holder]) as named (name));
      its_taken text[] := '{}';
      -- A row that somebody's transaction has changed stays as it is for now: claims wait for the jobs' locks.
      its_held text[];
      one record;
    begin
      its_revision := job_schedule_revision_1();
      perform job_lock_all_1(its_names);
      its_held := array(select name from job_schedule where name = any (its_names) order by name for no key update skip locked);
      if not plan_is_fresh_1(planned_at) then
        return;
      end if;
      for one in
        select wanted.name, wanted.holder, wanted.replaced
        from   jsonb_to_recordset(planned) as wanted (name text, holder text, seen text, replaced jsonb)
        join   job_schedule_free_1(its_instance, planned) free on free.name = wanted.name and free.seen = wanted.seen
        where  array[wanted.name, wanted.holder] <@ its_held
        order  by wanted.name
      loop
        if one.replaced is null or job_schedule_supersede_1(one.holder, one.replaced) then
          its_taken := its_taken || one.name;
        end if;
      end loop;
      -- What was decided under the other name is decided: a row under the new one says so.
      insert into job_runs (job_name, fire_time, status, trigger, reason, finished_at, gap_from, gap_count)
      select free.name, run.fire_time, 'skipped', run.trigger, 'decided as ' || holder.name, clock_timestamp(), run.gap_from, run.gap_count
      from   jsonb_to_recordset(planned) as free (name text, holder text, renamed boolean)
      join   job_schedule holder on holder.name = free.holder
      join   job_runs run on run.job_name = holder.name and run.fire_time > holder.decided_until and run_is_planned_1(run.trigger)
      where  free.renamed
      and    free.name = any (its_taken)
      on     conflict (job_name, fire_time) do nothing;
      -- Whatever held back either of the two holds back the job, and of two pauses the one that lasts longer is the job's. With itself
      -- in its own place nothing changes.
      update job_schedule taken
      set    cron = case when holder.overridden_at is null then free.cron else holder.cron end,
             time_zone = case when holder.overridden_at is null then free.time_zone else holder.time_zone end,
             calendar = case when holder.overridden_at is null then free.calendar else holder.calendar end,
             overridden_at = holder.overridden_at,
             overridden_by = holder.overridden_by,
             overridden_reason = holder.overridden_reason,
             effective_from = case when free.renamed then holder.effective_from else planned_at end,
             decided_until = case when free.renamed then holder.decided_until else planned_at end,
             enabled = own.enabled and holder.enabled,
             disabled_at = least(own.disabled_at, holder.disabled_at),
             paused_at = pause.paused_at,
             paused_until = pause.paused_until,
             paused_by = pause.paused_by,
             paused_reason = pause.paused_reason,
             earlier_holds = holder.earlier_holds || case
               when pause.name <> holder.name and holder.paused_at is not null
               then jsonb_build_array(jsonb_build_object(
                      'reason', 'paused',
                      'since', holder.paused_at,
                      'until', least(holder.paused_until, clock_timestamp()),
                      'by', holder.paused_by,
                      'why', holder.paused_reason))
               else '[]'
             end,
             yields_to = null,
             revision = its_revision
      from   jsonb_to_recordset(planned) as free (name text, holder text, cron text, time_zone text, calendar text, renamed boolean)
      join   job_schedule holder on holder.name = free.holder
      join   job_schedule own on own.name = free.name
      join   job_schedule pause on pause.name = case
               when case when own.paused_at is null then '-infinity' else coalesce(own.paused_until, 'infinity') end
                    > greatest(case when holder.paused_at is null then '-infinity' else coalesce(holder.paused_until, 'infinity') end, clock_timestamp())
               then own.name
               else holder.name
             end
      where  taken.name = free.name
      and    free.name = any (its_taken);
      -- What held back the name that gives up its place has gone on with the job.
      update job_schedule former
      set    yields_to = free.name,
             enabled = true,
             disabled_at = null,
             paused_at = null,
             paused_until = null,
             paused_by = null,
             paused_reason = null,
             earlier_holds = '[]',
             revision = its_revision
      from   jsonb_to_recordset(planned) as free (name text, holder text)
      where  former.name = free.holder
      and    free.name <> free.holder
      and    free.name = any (its_taken);
      -- What waits of it is finished under the old name; what comes next is this name's.
      update job_backfills backfill
      set    job_name = free.name
      from   jsonb_to_recordset(planned) as free (name text, holder text)
      where  backfill.job_name = free.holder
      and    free.name <> free.holder
      and    free.name = any (its_taken)
      and    backfill.finished_at is null
      and    backfill.cancelled_at is null;
      -- So do other names that waited for it: only one of them all holds the schedule.
      update job_schedule waiting
      set    yields_to = free.name,
             revision = its_revision
      from   jsonb_to_recordset(planned) as free (name text, holder text)
      where  waiting.yields_to = free.holder
      and    free.name <> free.holder
      and    free.name = any (its_taken)
      and    waiting.name <> free.name;
      return query select changed.name from job_schedule changed where changed.revision = its_revision;
    end $$`,

    // The jobs that no live instance declares any more, nor is about to take over under another name; also those made
    // at run time whose handler nobody has. A look through all that all instances declare: its cost is estimated far
    // too high.
    `create or replace function @schema.job_schedule_unregistered_1() returns table (name text, cron text, time_zone text, handler text)
    language sql volatile set search_path = @schema, pg_temp set jit = off as $$
      select schedule.name, schedule.cron, schedule.time_zone, schedule.handler
      from   job_schedule schedule
      where  schedule.removed_at is null
      and    schedule.yields_to is null
      and    not exists (
               select from job_instances instance
               where  instance.alive_until > clock_timestamp()
               and   (instance.jobs ? schedule.name or instance.handlers ? schedule.handler))
      and    not exists (
               select from job_schedule waiting
               join   job_instances instance on instance.jobs ? waiting.name
               where  waiting.yields_to = schedule.name
               and    instance.alive_until > clock_timestamp())
      order  by schedule.name
    $$`,

    // Puts an operator's schedule in place of the one that the code declares. planned is null where the schedule is the
    // same.
    // False: the job is not as it was read.
    `create or replace function @schema.job_schedule_override_1(
      its_job text, its_seen text, planned jsonb, its_cron text, its_time_zone text, its_actor text, its_reason text, its_details jsonb)
    returns boolean
    ${VERB} as $$
    declare
      its_revision bigint := job_schedule_revision_1();
    begin
      if not job_schedule_hold_1(its_job, its_seen) or planned is not null and not job_schedule_supersede_1(its_job, planned) then
        return false;
      end if;
      update job_schedule
      set    cron = its_cron,
             time_zone = its_time_zone,
             overridden_at = clock_timestamp(),
             overridden_by = its_actor,
             overridden_reason = its_reason,
             revision = its_revision,
             effective_from = coalesce((planned ->> 'at')::timestamptz, effective_from),
             decided_until = coalesce((planned ->> 'at')::timestamptz, decided_until)
      where  name = its_job;
      insert into job_actions (action, job_name, actor, reason, details)
      values ('override', its_job, its_actor, its_reason, its_details);
      perform wake_1('jobs');
      return true;
    end $$`,

    // From now on declarations count again. cleared is false where there was no override, null where there is no such
    // job to operate.
    `create or replace function @schema.job_schedule_clear_override_1(its_job text, its_actor text, its_reason text) returns boolean
    ${VERB} as $$
    declare
      its_revision bigint := job_schedule_revision_1();
      was_overridden boolean;
    begin
      select overridden_at is not null
      into   was_overridden
      from   job_schedule
      where  name = its_job
      and    removed_at is null
      and    yields_to is null
      for    no key update;
      if was_overridden is null then
        return null;
      end if;
      if was_overridden then
        update job_schedule
        set    overridden_at = null,
               overridden_by = null,
               overridden_reason = null,
               revision = its_revision
        where  name = its_job;
      end if;
      insert into job_actions (action, job_name, actor, reason)
      values ('clear-override', its_job, its_actor, its_reason);
      perform wake_1('jobs');
      return was_overridden;
    end $$`,

    // Adds a job that is made at run time. False: the name is taken, by such a job, or by one that a live instance's
    // code declares.
    `create or replace function @schema.job_schedule_add_1(
      its_job text, its_cron text, its_time_zone text, its_calendar text, its_owner text, its_policies jsonb,
      its_handler text, its_options jsonb, its_data jsonb) returns boolean
    ${VERB} as $$
    declare
      its_revision bigint := job_schedule_revision_1();
    begin
      perform job_lock_all_1(array[its_job]);
      perform
      from   job_schedule there
      where  there.name = its_job
      and    there.removed_at is null
      and   (there.handler is not null
             or exists (select from job_instances where alive_until > clock_timestamp() and jobs ? its_job));
      if found then
        return false;
      end if;
      insert into job_schedule (name, cron, time_zone, calendar, owner, policies, handler, options, data, revision)
      values (its_job, its_cron, its_time_zone, its_calendar, its_owner, its_policies, its_handler, its_options, its_data, its_revision)
      on     conflict (name) do update
      set    cron = excluded.cron,
             time_zone = excluded.time_zone,
             calendar = excluded.calendar,
             overridden_at = null,
             owner = excluded.owner,
             policies = excluded.policies,
             handler = excluded.handler,
             options = excluded.options,
             data = excluded.data,
             revision = excluded.revision,
             enabled = true,
             paused_at = null,
             paused_until = null,
             yields_to = null,
             removed_at = null,
             declared_at = clock_timestamp(),
             effective_from = clock_timestamp(),
             decided_until = clock_timestamp();
      perform wake_1('jobs');
      return true;
    end $$`,

    // Changes a job that was made at run time. planned is null where its schedule stays. False: the job is not as it
    // was read.
    `create or replace function @schema.job_schedule_update_1(
      its_job text, its_cron text, its_time_zone text, its_calendar text, its_owner text, its_policies jsonb,
      its_handler text, its_options jsonb, its_data jsonb, its_seen text, planned jsonb) returns boolean
    ${VERB} as $$
    declare
      its_revision bigint := job_schedule_revision_1();
    begin
      if not job_schedule_hold_1(its_job, its_seen) or planned is not null and not job_schedule_supersede_1(its_job, planned) then
        return false;
      end if;
      update job_schedule
      set    cron = its_cron,
             time_zone = its_time_zone,
             calendar = its_calendar,
             owner = its_owner,
             policies = its_policies,
             handler = its_handler,
             options = its_options,
             data = its_data,
             revision = its_revision,
             declared_at = clock_timestamp(),
             effective_from = coalesce((planned ->> 'at')::timestamptz, effective_from),
             decided_until = coalesce((planned ->> 'at')::timestamptz, decided_until)
      where  name = its_job;
      perform wake_1('jobs');
      return true;
    end $$`,

    // Takes out a job that was made at run time, with its waiting runs and its backfills. False: it is not as it was
    // read.
    `create or replace function @schema.job_schedule_remove_1(its_job text, its_seen text) returns boolean
    ${VERB} as $$
    declare
      its_revision bigint := job_schedule_revision_1();
    begin
      if not job_schedule_hold_1(its_job, its_seen) then
        return false;
      end if;
      update job_schedule set removed_at = clock_timestamp(), revision = its_revision where name = its_job;
      update job_runs
      set    status = 'cancelled',
             reason = 'its job was removed',
             finished_at = clock_timestamp(),
             next_attempt_at = null
      where  job_name = its_job
      and    status in ('queued', 'failed', 'orphaned');
      update job_backfills
      set    cancelled_at = clock_timestamp(),
             cancelled_reason = 'its job was removed'
      where  job_name = its_job
      and    finished_at is null
      and    cancelled_at is null;
      perform wake_1('jobs');
      return true;
    end $$`,

    // Writes what becomes of a job's missed occurrences later than its_from, up to its_until: all of it, or nothing
    // (false) where somebody else is at the job, its row is not as it was read, or something of that time has been
    // decided since. Claims of it are kept out meanwhile, or one of an occurrence in a gap would come beside the gap. A
    // run that is caught up stands in for older ones that nobody has begun; what a claim has in hand is let begin.
    `create or replace function @schema.catch_up_write_1(
      its_job text, its_seen text, its_from timestamptz, its_until timestamptz, its_rows integer, its_decisions jsonb, stands_in timestamptz)
    returns boolean
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
    begin
      if not pg_try_advisory_xact_lock(job_lock_1(its_job)) then
        return false;
      end if;
      perform
      from   job_schedule
      where  name = its_job
      and    xmin::text = its_seen
      -- Claims wait for this: it waits for nobody who has the row.
      for    no key update skip locked;
      if not found or job_decided_between_1(its_job, its_from, its_until) <> its_rows then
        return false;
      end if;
      insert into job_runs (job_name, fire_time, status, trigger, reason, finished_at, next_attempt_at, gap_from, gap_count)
      select its_job, decided.fire_time, case when decided.reason is null then 'queued' else 'skipped' end, 'catch-up', decided.reason,
             case when decided.reason is not null then clock_timestamp() end,
             case when decided.reason is null then clock_timestamp() end,
             decided.gap_from, decided.gap_count
      from   jsonb_to_recordset(its_decisions) as decided (fire_time timestamptz, reason text, gap_from timestamptz, gap_count integer)
      order  by decided.fire_time;
      if stands_in is not null then
        update job_runs run
        set    status = 'cancelled',
               reason = 'missed: superseded by a newer one',
               next_attempt_at = null,
               finished_at = clock_timestamp()
        from  (select queued.job_name, queued.fire_time
               from   job_runs queued
               where  queued.job_name = its_job
               and    queued.fire_time < stands_in
               and    queued.status = 'queued'
               and    queued.trigger = 'catch-up'
               and    queued.attempt = 0
               for    update skip locked) older
        where  run.job_name = older.job_name
        and    run.fire_time = older.fire_time;
      end if;
      update job_schedule
      set    decided_until = its_until
      where  name = its_job
      and    decided_until < its_until;
      return true;
    exception
      when unique_violation then
        return false;
    end $$`,
  ],
  down: [
    `drop function if exists @schema.catch_up_write_1`,
    `drop function if exists @schema.job_schedule_remove_1`,
    `drop function if exists @schema.job_schedule_update_1`,
    `drop function if exists @schema.job_schedule_add_1`,
    `drop function if exists @schema.job_schedule_clear_override_1`,
    `drop function if exists @schema.job_schedule_override_1`,
    `drop function if exists @schema.job_schedule_take_over_1`,
    `drop function if exists @schema.job_schedule_unregistered_1`,
    `drop function if exists @schema.job_schedule_free_1`,
    `drop function if exists @schema.job_schedule_declare_1`,
    `drop function if exists @schema.job_instance_announce_1`,
    `drop function if exists @schema.job_schedule_supersede_1`,
    `drop function if exists @schema.job_decided_between_1`,
    `drop function if exists @schema.job_schedule_hold_1`,
    `drop function if exists @schema.plan_is_fresh_1`,
    `drop function if exists @schema.schedules_differ_1`,
    `drop function if exists @schema.schedule_as_declared_1`,
    `drop function if exists @schema.job_schedule_revision_1`,
  ],
});
