import { migration, VERB } from './frozen.js';

/**
 * Creates the operators' verbs, each one function that judges, changes, records and wakes up. It answers with a
 * verdict, and with the facts that the verdict is told with. Where a verdict is null there is none yet.
 */
export const createOperatorFunctions = migration('CreateOperatorFunctions1796000000013', {
  up: [
    // An instant as JSON has it; null for what is none.
    `create or replace function @schema.instant_or_null_1(given text) returns timestamptz language plpgsql stable as $$
    begin
      return given::timestamptz;
    exception when data_exception then
      return null;
    end $$`,

    // Keeps what an operator did, in the transaction in which it is done.
    `create or replace function @schema.job_action_record_1(
      its_action text, its_job text, its_fire_time timestamptz, its_actor text, its_reason text, its_details jsonb) returns void
    language sql volatile as $$
      insert into @schema.job_actions (action, job_name, fire_time, actor, reason, details)
      values (its_action, its_job, its_fire_time, its_actor, its_reason, its_details)
    $$`,

    // The job was made at run time and taken out: no instance would start a run of it.
    `create or replace function @schema.job_is_removed_1(job text) returns boolean language sql stable as $$
      select exists (select from @schema.job_schedule removed where removed.name = job and removed.removed_at is not null)
    $$`,

    // Whether a job can be operated under this name. Its row is held until the transaction ends.
    `create or replace function @schema.job_operated_1(its_job text, out verdict text, out facts jsonb)
    language plpgsql set search_path = @schema, pg_temp as $$
    begin
      select case when job.removed_at is not null then 'unknown job' when job.yields_to is not null then 'renamed' end,
             jsonb_build_object('yieldsTo', job.yields_to)
      into   verdict, facts
      from   job_schedule job
      where  job.name = its_job
      for    no key update;
      if not found then
        verdict := 'unknown job';
      end if;
    end $$`,

    `create or replace function @schema.job_pause_1(
      its_job text, its_end timestamptz, its_actor text, its_reason text, its_details jsonb, out verdict text, out facts jsonb) ${VERB} as $$
    begin
      select operated.* into verdict, facts from job_operated_1(its_job) operated;
      if verdict is not null then
        return;
      end if;
      if its_end <= clock_timestamp() then
        verdict := 'over';
        return;
      end if;
      update job_schedule job
      set    paused_at = clock_timestamp(),
             paused_until = its_end,
             paused_by = its_actor,
             paused_reason = its_reason
      where  job.name = its_job
      returning jsonb_build_object('since', job.paused_at, 'until', job.paused_until) into facts;
      perform job_action_record_1('pause', its_job, null, its_actor, its_reason, its_details);
      verdict := 'paused';
    end $$`,

    `create or replace function @schema.job_resume_1(its_job text, its_actor text, its_reason text, out verdict text, out facts jsonb) ${VERB} as $$
    begin
      select operated.* into verdict, facts from job_operated_1(its_job) operated;
      if verdict is not null then
        return;
      end if;
      update job_schedule job
      set    paused_at = null,
             paused_until = null,
             paused_by = null,
             paused_reason = null
      where  job.name = its_job
      and    job.paused_at is not null;
      verdict := case when found then 'changed' else 'as it was' end;
      perform job_action_record_1('resume', its_job, null, its_actor, its_reason, null);
      perform wake_1('runs');
    end $$`,

    `create or replace function @schema.job_set_enabled_1(
      its_job text, is_enabled boolean, its_actor text, its_reason text, out verdict text, out facts jsonb) ${VERB} as $$
    begin
      select operated.* into verdict, facts from job_operated_1(its_job) operated;
      if verdict is not null then
        return;
      end if;
      update job_schedule job
      set    enabled = is_enabled
      where  job.name = its_job
      and    job.enabled <> is_enabled;
      verdict := case when found then 'changed' else 'as it was' end;
      perform job_action_record_1(case when is_enabled then 'enable' else 'disable' end, its_job, null, its_actor, its_reason, null);
      if is_enabled then
        perform wake_1('runs');
      end if;
    end $$`,

    `create or replace function @schema.flag_set_1(
      its_flag text, is_on_now boolean, its_actor text, its_reason text, out verdict text, out facts jsonb) ${VERB} as $$
    begin
      insert into job_flags (name, is_on, changed_by, reason)
      values (its_flag, is_on_now, its_actor, its_reason)
      on     conflict (name) do update
      set    is_on = excluded.is_on,
             changed_by = excluded.changed_by,
             reason = excluded.reason,
             changed_at = clock_timestamp();
      perform job_action_record_1('set-flag', null, null, its_actor, its_reason, jsonb_build_object('flag', its_flag, 'on', is_on_now));
      perform wake_1(case when is_on_now then 'runs' else 'jobs' end);
      verdict := 'set';
    end $$`,

    // Decides occurrences before they are due, if the job is as it was read, and none of them has become due since.
    `create or replace function @schema.job_skip_1(
      its_job text, its_version text, its_fire_times timestamptz[], its_actor text, its_reason text, out verdict text, out facts jsonb) ${VERB} as $$
    declare
      skipped timestamptz;
    begin
      perform pg_advisory_xact_lock(job_lock_1(its_job));
      select operated.* into verdict, facts from job_operated_1(its_job) operated;
      if verdict is not null then
        return;
      end if;
      if its_version is distinct from (select job.xmin::text from job_schedule job where job.name = its_job)
         or clock_timestamp() >= any (its_fire_times) then
        verdict := 'stale';
        return;
      end if;
      for skipped in
        insert into job_runs as run (job_name, fire_time, status, trigger, reason, requested_by, finished_at)
        select its_job, occurrence.at, 'skipped', 'schedule', 'skipped by ' || its_actor || coalesce(': ' || its_reason, ''), its_actor, clock_timestamp()
        from   unnest(its_fire_times) as occurrence (at)
        order  by occurrence.at
        on     conflict (job_name, fire_time) do nothing
        returning run.fire_time
      loop
        perform job_action_record_1('skip', its_job, skipped, its_actor, its_reason, null);
      end loop;
      verdict := 'skipped';
    end $$`,

    // An occurrence that an operator skipped runs after all.
    `create or replace function @schema.job_unskip_1(
      its_job text, its_fire_time timestamptz, its_actor text, its_reason text, out verdict text, out facts jsonb) ${VERB} as $$
    begin
      perform pg_advisory_xact_lock(job_lock_1(its_job));
      delete from job_runs run
      where  run.job_name = its_job
      and    run.fire_time = its_fire_time
      and    run.status = 'skipped'
      and    run.requested_by is not null
      and    run.gap_from is null
      and    run.fire_time > clock_timestamp();
      if not found then
        verdict := 'refused';
        return;
      end if;
      perform job_action_record_1('unskip', its_job, its_fire_time, its_actor, its_reason, null);
      verdict := 'unskipped';
    end $$`,

    // The first free millisecond, from one on, that is not a whole second: a manual run has a fire time that no
    // occurrence has.
    // Null when five seconds are full.
    `create or replace function @schema.run_place_1(its_job text, its_start timestamptz) returns timestamptz
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
    declare
      place timestamptz;
    begin
      for millis in 0..5000 loop
        place := date_trunc('milliseconds', its_start) + millis * interval '1 millisecond';
        continue when place = date_trunc('second', place);
        continue when exists (select from job_runs run where run.job_name = its_job and run.fire_time = place);
        return place;
      end loop;
      return null;
    end $$`,

    // Adds a run that a person asks for. Behind the lock of the job, behind which claims are made: of two clicks the
    // second one sees the run of the first.
    `create or replace function @schema.run_now_1(
      its_job text, its_overlap text, its_data jsonb, its_flag_off text, its_actor text, its_reason text, its_details jsonb,
      out verdict text, out facts jsonb) ${VERB} as $$
    declare
      job   job_schedule;
      asked text;
      place timestamptz;
    begin
      perform pg_advisory_xact_lock(job_lock_1(its_job));
      select operated.* into verdict, facts from job_operated_1(its_job) operated;
      if verdict is not null then
        return;
      end if;
      select stored.* into job from job_schedule stored where stored.name = its_job;
      facts := jsonb_build_object('flag', job.policies ->> 'flag');
      verdict := case
        when not job.enabled then 'disabled'
        when job_is_held_1(job.enabled, job.paused_at, job.paused_until) then 'paused'
        when flag_is_off_1(job.policies ->> 'flag') then 'flag off'
        when its_flag_off is not null then 'switched off'
      end;
      if verdict is not null then
        return;
      end if;
      asked := coalesce(its_overlap, job.policies ->> 'overlap', 'forbid');
      if asked = 'forbid' then
        select 'running', jsonb_build_object('instanceId', run.claimed_by)
        into   verdict, facts
        from   job_runs run
        where  run.job_name = its_job
        and    run.status in ('running', 'fanned_out')
        limit  1;
        if verdict is not null then
          return;
        end if;
        select case when min(run.fire_time) is not null then 'waiting' end, jsonb_build_object('fireTime', min(run.fire_time))
        into   verdict, facts
        from   job_runs run
        where  run.job_name = its_job
        and    run.trigger = 'manual'
        and    run.status in ('queued', 'failed', 'orphaned');
        if verdict is not null then
          return;
        end if;
      end if;
      place := run_place_1(its_job, clock_timestamp());
      if place is null then
        verdict := 'full';
        return;
      end if;
      insert into job_runs (job_name, fire_time, status, trigger, requested_by, data, beside, next_attempt_at)
      values (its_job, place, 'queued', 'manual', its_actor, its_data, asked = 'allow', clock_timestamp());
      perform job_action_record_1('run-now', its_job, place, its_actor, its_reason, its_details);
      perform wake_1('runs');
      verdict := 'added';
      facts := jsonb_build_object('fireTime', place);
    end $$`,

    // Holds a run's row, for a verb. It waits for nobody: a transaction of the application may hold the row for as long
    // as it likes.
    // A receipt that is about to commit shares the row with this.
    `create or replace function @schema.run_operated_1(its_job text, its_fire_time timestamptz, out verdict text, out facts jsonb)
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
    begin
      select jsonb_build_object('status', run.status, 'claimedBy', run.claimed_by, 'gapCount', run.gap_count, 'removed', job_is_removed_1(its_job))
      into   facts
      from   job_runs run
      where  run.job_name = its_job
      and    run.fire_time = its_fire_time
      for    no key update skip locked;
      if not found then
        verdict := case
          when exists (select from job_runs run where run.job_name = its_job and run.fire_time = its_fire_time) then 'busy'
          else 'unknown run'
        end;
      end if;
    end $$`,

    // Ends a run that waits, and asks for the end of one that is under way.
    `create or replace function @schema.run_cancel_1(
      its_job text, its_fire_time timestamptz, its_actor text, its_reason text, out verdict text, out facts jsonb) ${VERB} as $$
    declare
      why text := 'cancelled by ' || its_actor || coalesce(': ' || its_reason, '');
      was text;
    begin
      select operated.* into verdict, facts from run_operated_1(its_job, its_fire_time) operated;
      if verdict is not null then
        return;
      end if;
      was := facts ->> 'status';
      if run_waits_1(was) then
        update job_runs run
        set    status = 'cancelled',
               reason = why,
               finished_at = clock_timestamp(),
               next_attempt_at = null
        where  run.job_name = its_job
        and    run.fire_time = its_fire_time;
        verdict := 'cancelled';
      elsif was in ('running', 'fanned_out') then
        update job_runs run
        set    cancel_requested_at = coalesce(run.cancel_requested_at, clock_timestamp()),
               cancel_reason = coalesce(run.cancel_reason, why)
        where  run.job_name = its_job
        and    run.fire_time = its_fire_time;
        if was = 'running' then
          perform wake_1('told ' || (facts ->> 'claimedBy'));
        end if;
        verdict := 'requested';
      else
        verdict := 'ended';
        return;
      end if;
      perform job_action_record_1('cancel', its_job, its_fire_time, its_actor, its_reason, jsonb_build_object('was', was));
    end $$`,

    // The run died because some of its pages did, and not its tick: begun again, its tick would only find that all is
    // published.
    `create or replace function @schema.run_died_of_pages_1(status text, pages integer) returns boolean language sql immutable as $$
      select status = 'dead' and pages is not null
    $$`,

    // Queues pages of an occurrence again: the dead ones among those that are named, or all that are not done. Those
    // that were thrown away stay so. Attempts so far do not count, and tickets that a queue may still have are worth
    // nothing.
    `create or replace function @schema.page_reopen_1(its_job text, its_fire_time timestamptz, its_pages text[], its_actor text) returns integer
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
    declare
      reopened integer;
    begin
      update job_pages page
      set    status = 'queued',
             reason = 'replayed by ' || its_actor,
             releases = page.attempt,
             ticket = page.ticket + 1,
             enqueued_at = null,
             finished_at = null,
             next_attempt_at = clock_timestamp()
      where  page.job_name = its_job
      and    page.fire_time = its_fire_time
      and   (its_pages is null or page.page = any (its_pages) and page.status = 'dead')
      and    page.status in ('queued', 'failed', 'dead', 'cancelled')
      and    coalesce(page.reason, '') not like 'discarded: %';
      get diagnostics reopened = row_count;
      return reopened;
    end $$`,

    // Has a run begin again. It waits like any other, whatever it was: its turn, holds and flags are judged by whoever
    // starts it. What it has of attempts does not count any more. It leaves a backfill that is active: whoever cancels
    // that would undo what a person wanted.
    `create or replace function @schema.run_begin_again_1(
      its_job text, its_fire_time timestamptz, its_actor text, its_reason text, its_details jsonb) returns void
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
    begin
      update job_runs run
      set    status = case when run.status in ('failed', 'orphaned') then run.status else 'queued' end,
             reason = 'replayed by ' || its_actor || ' (was ' || run.status || coalesce(': ' || run.reason, '') || ')',
             requested_by = its_actor,
             next_attempt_at = clock_timestamp(),
             backfill_id = case when not exists (
               select from job_backfills active
               where  active.id = run.backfill_id
               and    active.finished_at is null
               and    active.cancelled_at is null) then run.backfill_id end,
             -- What is done begins anew; what is not resumes.
             checkpoint = case run.status when 'done' then null else run.checkpoint end,
             -- With its pages it waits for those alone, and its tick is not called.
             pages = case when run_died_of_pages_1(run.status, run.pages) then run.pages end,
             releases = run.attempt,
             cancel_requested_at = null,
             cancel_reason = null
      where  run.job_name = its_job
      and    run.fire_time = its_fire_time;
      perform page_reopen_1(its_job, its_fire_time, null, its_actor);
      perform job_action_record_1('replay', its_job, its_fire_time, its_actor, its_reason, its_details);
      perform wake_1('runs');
    end $$`,

    // Ends a run that waits for a person, or for its next attempt.
    `create or replace function @schema.run_throw_away_1(
      its_job text, its_fire_time timestamptz, its_actor text, its_reason text, its_details jsonb) returns void
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
    begin
      update job_runs run
      set    status = 'cancelled',
             reason = 'discarded: ' || its_reason,
             next_attempt_at = null
      where  run.job_name = its_job
      and    run.fire_time = its_fire_time;
      perform job_action_record_1('discard', its_job, its_fire_time, its_actor, its_reason, its_details);
    end $$`,

    `create or replace function @schema.run_replay_1(
      its_job text, its_fire_time timestamptz, its_statuses text[], its_actor text, its_reason text, out verdict text, out facts jsonb) ${VERB} as $$
    begin
      select operated.* into verdict, facts from run_operated_1(its_job, its_fire_time) operated;
      if verdict is not null then
        return;
      end if;
      if not facts ->> 'status' = any (its_statuses) or (facts ->> 'gapCount')::integer > 1 or (facts ->> 'removed')::boolean then
        verdict := 'refused';
        return;
      end if;
      perform run_begin_again_1(its_job, its_fire_time, its_actor, its_reason, jsonb_build_object('was', facts ->> 'status'));
      verdict := 'changed';
    end $$`,

    `create or replace function @schema.run_discard_1(
      its_job text, its_fire_time timestamptz, its_statuses text[], its_actor text, its_reason text, out verdict text, out facts jsonb) ${VERB} as $$
    begin
      select operated.* into verdict, facts from run_operated_1(its_job, its_fire_time) operated;
      if verdict is not null then
        return;
      end if;
      if not facts ->> 'status' = any (its_statuses) then
        verdict := 'refused';
        return;
      end if;
      perform run_throw_away_1(its_job, its_fire_time, its_actor, its_reason, jsonb_build_object('was', facts ->> 'status'));
      verdict := 'changed';
    end $$`,

    // The run is one that a filter of dead letters asks for, apart from its status, and that the verb changes.
    `create or replace function @schema.run_matches_1(
      job_name text, fire_time timestamptz, error jsonb, verb text, its_job text, its_start timestamptz, its_end timestamptz, its_error text)
    returns boolean language sql stable as $$
      select (its_job is null or job_name = its_job)
         and (its_start is null or fire_time >= its_start)
         and (its_end is null or fire_time <= its_end)
         and (its_error is null or position(lower(its_error) in lower(concat(error ->> 'name', ': ', error ->> 'message'))) > 0)
         and (verb <> 'replay' or not @schema.job_is_removed_1(job_name))
    $$`,

    // Replays or discards many, the earliest fire times first. A run that somebody else changes right now is passed
    // over. Planned for the filter that is given: each has an index of its own.
    `create or replace function @schema.run_change_all_1(
      verb text, its_status text, its_job text, its_start timestamptz, its_end timestamptz, its_error text, its_limit integer,
      its_actor text, its_reason text, its_details jsonb, out verdict text, out facts jsonb)
    ${VERB.replace('force_generic_plan', 'force_custom_plan')} as $$
    declare
      matching   integer;
      one        record;
      jobs       text[] := '{}';
      fire_times timestamptz[] := '{}';
    begin
      select count(*)
      into   matching
      from   job_runs run
      where  run.status = its_status
      and    run_matches_1(run.job_name, run.fire_time, run.error, verb, its_job, its_start, its_end, its_error);
      for one in
        select run.job_name, run.fire_time
        from   job_runs run
        where  run.status = its_status
        and    run_matches_1(run.job_name, run.fire_time, run.error, verb, its_job, its_start, its_end, its_error)
        order  by run.fire_time, run.job_name
        limit  its_limit
        for    no key update skip locked
      loop
        if verb = 'replay' then
          perform run_begin_again_1(one.job_name, one.fire_time, its_actor, its_reason, its_details);
        else
          perform run_throw_away_1(one.job_name, one.fire_time, its_actor, its_reason, its_details);
        end if;
        jobs := jobs || one.job_name;
        fire_times := fire_times || one.fire_time;
      end loop;
      verdict := 'changed';
      select jsonb_build_object(
               'runs', coalesce(jsonb_agg(jsonb_build_array(changed.job_name, changed.fire_time) order by changed.fire_time, changed.job_name), '[]'),
               'left', greatest(0, matching - count(*)))
      into   facts
      from   unnest(jobs, fire_times) as changed (job_name, fire_time);
    end $$`,

    // Queues dead pages of one occurrence again. One that had died waits for its start like any other; a run that ended
    // otherwise has its pages begun by its own replay.
    `create or replace function @schema.page_replay_1(
      its_job text, its_fire_time timestamptz, its_pages text[], its_actor text, its_reason text, out verdict text, out facts jsonb) ${VERB} as $$
    declare
      reopened integer := 0;
    begin
      perform pages_lock_1(its_job, its_fire_time);
      perform
      from   job_runs run
      where  run.job_name = its_job
      and    run.fire_time = its_fire_time
      and    run.status in ('dead', 'fanned_out', 'queued')
      and    run.pages is not null
      and    not job_is_removed_1(its_job)
      for    no key update;
      if found then
        reopened := page_reopen_1(its_job, its_fire_time, its_pages, its_actor);
      end if;
      if reopened > 0 then
        update job_runs run
        set    status = case run.status when 'dead' then 'queued' else run.status end,
               reason = 'pages replayed by ' || its_actor,
               next_attempt_at = case run.status when 'dead' then clock_timestamp() else run.next_attempt_at end,
               releases = case run.status when 'dead' then run.attempt else run.releases end,
               cancel_requested_at = null,
               cancel_reason = null
        where  run.job_name = its_job
        and    run.fire_time = its_fire_time;
        perform job_action_record_1('replay-pages', its_job, its_fire_time, its_actor, its_reason, jsonb_build_object('pages', reopened));
        perform wake_1('runs');
      end if;
      verdict := 'changed';
      facts := jsonb_build_object('pages', reopened);
    end $$`,

    // Throws dead pages of one occurrence away. With the last one a dead occurrence ends as cancelled.
    `create or replace function @schema.page_discard_1(
      its_job text, its_fire_time timestamptz, its_pages text[], its_actor text, its_reason text, out verdict text, out facts jsonb) ${VERB} as $$
    declare
      discarded integer;
    begin
      perform pages_lock_1(its_job, its_fire_time);
      update job_pages page
      set    status = 'cancelled',
             reason = 'discarded: ' || its_reason
      where  page.job_name = its_job
      and    page.fire_time = its_fire_time
      and    page.page = any (its_pages)
      and    page.status = 'dead';
      get diagnostics discarded = row_count;
      if discarded > 0 then
        update job_runs run
        set    status = 'cancelled',
               reason = 'discarded: ' || its_reason
        where  run.job_name = its_job
        and    run.fire_time = its_fire_time
        and    run_died_of_pages_1(run.status, run.pages)
        and    not exists (
                 select from job_pages page
                 where  page.job_name = its_job
                 and    page.fire_time = its_fire_time
                 and    page.status = 'dead');
        perform job_action_record_1('discard-pages', its_job, its_fire_time, its_actor, its_reason, jsonb_build_object('pages', discarded));
      end if;
      verdict := 'changed';
      facts := jsonb_build_object('pages', discarded);
    end $$`,
  ],
  down: [
    `drop function if exists @schema.page_discard_1`,
    `drop function if exists @schema.page_replay_1`,
    `drop function if exists @schema.run_change_all_1`,
    `drop function if exists @schema.run_matches_1`,
    `drop function if exists @schema.run_discard_1`,
    `drop function if exists @schema.run_replay_1`,
    `drop function if exists @schema.run_throw_away_1`,
    `drop function if exists @schema.run_begin_again_1`,
    `drop function if exists @schema.page_reopen_1`,
    `drop function if exists @schema.run_died_of_pages_1`,
    `drop function if exists @schema.run_cancel_1`,
    `drop function if exists @schema.run_operated_1`,
    `drop function if exists @schema.run_now_1`,
    `drop function if exists @schema.run_place_1`,
    `drop function if exists @schema.job_unskip_1`,
    `drop function if exists @schema.job_skip_1`,
    `drop function if exists @schema.flag_set_1`,
    `drop function if exists @schema.job_set_enabled_1`,
    `drop function if exists @schema.job_resume_1`,
    `drop function if exists @schema.job_pause_1`,
    `drop function if exists @schema.job_operated_1`,
    `drop function if exists @schema.job_is_removed_1`,
    `drop function if exists @schema.job_action_record_1`,
    `drop function if exists @schema.instant_or_null_1`,
  ],
});
