import { migration, VERB } from './frozen.js';

/** Creates what begins, feeds and cancels backfills. */
export const createBackfillFunctions = migration('CreateBackfillFunctions1796000000015', {
  up: [
    // Asks for a backfill, and keeps who did. Returns its id.
    `create or replace function @schema.backfill_create_1(
      its_job text, its_from timestamptz, its_to timestamptz, its_max_concurrent integer, its_beside boolean, its_replay boolean, its_total integer,
      its_actor text, its_reason text, its_details jsonb) returns uuid
    ${VERB} as $$
    declare
      its_id uuid;
    begin
      -- The next fire time is always the first one later than fed_until.
      insert into job_backfills (job_name, range_from, range_to, fed_until, max_concurrent, beside, replay, total, requested_by, reason)
      values (its_job, its_from, its_to, its_from - interval '1 millisecond', its_max_concurrent, its_beside, its_replay, its_total, its_actor, its_reason)
      returning id into its_id;
      insert into job_actions (action, job_name, actor, reason, details)
      values ('backfill', its_job, coalesce(its_actor, 'unknown'), its_reason, its_details || jsonb_build_object('backfill', its_id));
      perform wake_1('jobs');
      return its_id;
    end $$`,

    // Queues the occurrences of a backfill that a pass has planned, and moves its cursor: all of it, or nothing
    // ('busy') where another pass feeds the job, or the backfill or an occurrence is not as it was read. 'finished'
    // comes with how it ended.
    `create or replace function @schema.backfill_feed_1(its_id uuid, its_job text, its_seen text, planned jsonb)
    returns table (verdict text, ended_total integer, ended_left_alone integer, ended_done integer, ended_dead integer)
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
    declare
      its_beside boolean;
      its_fire_times timestamptz[] := array(select jsonb_array_elements_text(planned -> 'insert')::timestamptz);
      one record;
    begin
      verdict := 'busy';
      if not pg_try_advisory_xact_lock(hashtextextended('nestjs-distributed-cron:backfill:' || @schema_text || ':' || its_job, 0)) then
        return next;
        return;
      end if;
      -- Whoever cancels it waits, and then finds everything that was queued. Nobody who has the row is waited for.
      select backfill.beside
      into   its_beside
      from   job_backfills backfill
      where  backfill.id = its_id
      and    backfill.xmin::text = its_seen
      for    update skip locked;
      if not found then
        return next;
        return;
      end if;

      insert into job_runs (job_name, fire_time, status, trigger, next_attempt_at, backfill_id, beside)
      select its_job, fed.fire_time, 'queued', 'backfill', clock_timestamp(), its_id, its_beside
      from   unnest(its_fire_times) as fed (fire_time)
      order  by fed.fire_time;

      for one in
        select *
        from   jsonb_to_recordset(planned -> 'reopen') as reopened (
                 fire_time timestamptz, status text, attempt integer, gap_from timestamptz, gap_count integer, heir timestamptz, rest integer)
        order  by fire_time
      loop
        -- A row that stands for a gap hands the rest of it to another before it runs.
        insert into job_runs (job_name, fire_time, status, trigger, reason, finished_at, gap_from, gap_count)
        select run.job_name, one.heir, run.status, run.trigger, run.reason, run.finished_at, run.gap_from, one.rest
        from   job_runs run
        where  run.job_name = its_job
        and    run.fire_time = one.fire_time
        and    run.status = 'skipped'
        and    one.heir is not null;
        -- Its attempts so far do not count; their number goes on, for it is the fence. By an expression that was replaced the gap may hold
        -- what this one has no fire time for: then the row stands for it on.
        update job_runs run
        set    status = 'queued',
               trigger = 'backfill',
               backfill_id = its_id,
               beside = its_beside,
               reason = null,
               error = null,
               checkpoint = case run.status when 'done' then null else run.checkpoint end,
               claimed_by = null,
               started_at = null,
               finished_at = null,
               next_attempt_at = clock_timestamp(),
               releases = run.attempt,
               -- With its pages it waits for those alone, and its tick is not called.
               pages = case when run_died_of_pages_1(run.status, run.pages) then run.pages end,
               gap_from = case when one.heir is null and one.rest > 0 then run.gap_from end,
               gap_count = case when one.heir is null and one.rest > 0 then one.rest + 1 end,
               earlier_attempts = earlier_attempts_with_1(run.earlier_attempts, jsonb_build_object(
                 'attempt', run.attempt,
                 'claimedBy', run.claimed_by,
                 'startedAt', run.started_at,
                 'finishedAt', run.finished_at,
                 'status', run.status,
                 'error', run.error,
                 'reason', run.reason,
                 'trigger', run.trigger,
                 'pages', run.pages))
        where  run.job_name = its_job
        and    run.fire_time = one.fire_time
        and    run.status = one.status
        and    run.attempt = one.attempt
        and    run.gap_from is not distinct from one.gap_from
        and    run.gap_count is not distinct from one.gap_count;
        if not found then
          raise no_data_found;
        end if;
        perform page_reopen_1(its_job, one.fire_time, null, 'a backfill');
      end loop;

      -- What has got a row of its own is taken from the count of the gap that it lies in. Those that were just handed on are counted anew.
      update job_runs run
      set    gap_count = greatest(1, run.gap_count - inside.many)
      from  (select gap.fire_time, count(*)::integer as many
             from   job_runs gap
             join   unnest(its_fire_times) as fed (fire_time) on fed.fire_time >= gap.gap_from and fed.fire_time < gap.fire_time
             where  gap.job_name = its_job
             and    gap.gap_from is not null
             and    gap.fire_time <> all (array(
                      select coalesce((reopened ->> 'heir')::timestamptz, (reopened ->> 'fire_time')::timestamptz)
                      from   jsonb_array_elements(planned -> 'reopen') as reopened))
             group  by gap.fire_time) inside
      where  run.job_name = its_job
      and    run.fire_time = inside.fire_time;

      update job_backfills backfill
      set    fed_until = (planned ->> 'fed_until')::timestamptz,
             fed = backfill.fed + cardinality(its_fire_times) + jsonb_array_length(planned -> 'reopen'),
             left_alone = backfill.left_alone + (planned ->> 'left_alone')::integer
      where  backfill.id = its_id;
      verdict := 'fed';
      if (planned ->> 'at_end')::boolean and (select open = 0 from backfill_open_1(its_id)) then
        verdict := 'finished';
        update job_backfills backfill
        set    finished_at = clock_timestamp()
        where  backfill.id = its_id
        returning backfill.total, backfill.left_alone,
                 (select count(*) from job_runs run where run.backfill_id = its_id and run.status = 'done')::integer,
                 (select count(*) from job_runs run where run.backfill_id = its_id and run.status = 'dead')::integer
        into   ended_total, ended_left_alone, ended_done, ended_dead;
      end if;
      return next;
    exception
      when unique_violation or no_data_found then
        verdict := 'busy';
        return next;
    end $$`,

    // Ends a backfill early: nothing more of it is queued or started; what runs goes on. Behind the job's lock, so that
    // a claim under way has either started a run or finds it cancelled. No row: it is not active.
    `create or replace function @schema.backfill_cancel_1(its_id uuid, its_job text, its_actor text, its_reason text, said text)
    returns table (cancelled_runs integer, put_back integer)
    ${VERB} as $$
    declare
      one record;
    begin
      perform job_lock_all_1(array[its_job]);
      update job_backfills backfill
      set    cancelled_at = clock_timestamp(),
             cancelled_by = its_actor,
             cancelled_reason = its_reason
      where  backfill.id = its_id
      and    backfill.finished_at is null
      and    backfill.cancelled_at is null;
      if not found then
        return;
      end if;
      -- Occurrences whose own story was set aside, and that were not started since, are again what they were. A story that
      -- somebody has spoilt can't be read: then the run is cancelled with the others.
      put_back := 0;
      for one in
        select run.job_name, run.fire_time
        from   job_runs run
        where  run.backfill_id = its_id
        and    run.status = 'queued'
        and    run.claimed_by is null
        -- A person may have cancelled or replayed it in this moment.
        for    no key update
      loop
        begin
          update job_runs run
          set    status = was.status,
                 trigger = was.trigger,
                 reason = was.reason,
                 error = was.error,
                 claimed_by = was."claimedBy",
                 started_at = was."startedAt",
                 finished_at = was."finishedAt",
                 pages = was.pages,
                 next_attempt_at = null,
                 backfill_id = null,
                 beside = false,
                 earlier_attempts = run.earlier_attempts - -1
          from   job_runs queued
          cross  join lateral jsonb_to_record(queued.earlier_attempts -> -1)
                   as was (status text, trigger text, reason text, error jsonb, pages integer, "claimedBy" text, "startedAt" timestamptz, "finishedAt" timestamptz)
          where  queued.job_name = one.job_name
          and    queued.fire_time = one.fire_time
          and    was.trigger is not null
          and    run.job_name = one.job_name
          and    run.fire_time = one.fire_time;
          if found then
            put_back := put_back + 1;
          end if;
        exception when data_exception or integrity_constraint_violation then
          null;
        end;
      end loop;
      update job_backfills backfill
      set    fed = backfill.fed - put_back
      where  backfill.id = its_id
      and    put_back > 0;
      insert into job_actions (action, job_name, actor, reason, details)
      values ('cancel-backfill', its_job, coalesce(its_actor, 'unknown'), its_reason, jsonb_build_object('backfill', its_id));
      update job_runs run
      set    status = 'cancelled',
             reason = said,
             finished_at = clock_timestamp(),
             next_attempt_at = null
      where  run.backfill_id = its_id
      and    run.status in ('queued', 'failed', 'orphaned');
      get diagnostics cancelled_runs = row_count;
      return next;
    end $$`,
  ],
  down: [
    `drop function if exists @schema.backfill_cancel_1`,
    `drop function if exists @schema.backfill_feed_1`,
    `drop function if exists @schema.backfill_create_1`,
  ],
});
