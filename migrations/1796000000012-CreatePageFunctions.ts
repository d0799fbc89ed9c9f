import { migration } from './frozen.js';

/**
 * Creates the transitions of pages. Each names the attempt that it belongs to: of two deliveries, the later one has
 * raised it.
 */
export const createPageFunctions = migration('CreatePageFunctions1796000000012', {
  up: [
    // Takes the lock behind which the pages of an occurrence end, until the transaction does: of two that end at once,
    // each would otherwise see the other as still open, and nobody would end the occurrence. It is not the row of the
    // run, whose lease is renewed while its first pages end already.
    `create or replace function @schema.pages_lock_1(its_job text, its_fire_time timestamptz) returns void language plpgsql as $$
    begin
      perform pg_advisory_xact_lock(hashtextextended(
        'nestjs-distributed-cron:pages:' || jsonb_build_array(@schema_text, its_job, extract(epoch from its_fire_time))::text, 0));
    end $$`,

    // The page is not at its end.
    `create or replace function @schema.page_is_open_1(status text) returns boolean language sql immutable as $$
      select status in ('queued', 'running', 'failed')
    $$`,

    // Pages of a run begin only while it is under way: a run that waits has to be started first, by the rules that hold
    // for all.
    `create or replace function @schema.run_works_pages_1(status text, lease_until timestamptz, cancel_requested_at timestamptz) returns boolean
    language sql volatile as $$
      select cancel_requested_at is null and @schema.run_is_under_way_1(status, lease_until)
    $$`,

    // Ends an occurrence whose pages have all ended: done, dead when one of them is, or cancelled when that was asked
    // for. To be called behind pages_lock_1. Returns its end; null when this has not ended it.
    `create or replace function @schema.pages_end_run_1(its_job text, its_fire_time timestamptz) returns jsonb
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    declare
      dead integer;
      first_dead text;
      ended jsonb;
    begin
      perform
      from   job_runs run
      where  run.job_name = its_job
      and    run.fire_time = its_fire_time
      and    run.status = 'fanned_out'
      and    not exists (
               select from job_pages page where page.job_name = its_job and page.fire_time = its_fire_time and page_is_open_1(page.status));
      if not found then
        return null;
      end if;
      select count(*),
            (array_agg(concat(page.page, ': ', page.error ->> 'name', ': ', page.error ->> 'message') order by page.page))[1]
      into   dead, first_dead
      from   job_pages page
      where  page.job_name = its_job
      and    page.fire_time = its_fire_time
      and    page.status = 'dead';
      update job_runs run
      set    status = case when run.cancel_requested_at is not null then 'cancelled' when dead > 0 then 'dead' else 'done' end,
             reason = case
               when run.cancel_requested_at is not null then run.cancel_reason
               when dead > 0 then 'pages dead: ' || dead || ' of ' || run.pages
             end,
             error = case when dead > 0 then jsonb_build_object(
               'name', 'DeadPages', 'message', 'Dead pages: ' || dead || ' of ' || run.pages || '. The first is ' || first_dead, 'stack', null) end,
             finished_at = clock_timestamp()
      where  run.job_name = its_job
      and    run.fire_time = its_fire_time
      and    run.status = 'fanned_out'
      returning jsonb_build_object(
        'status', run.status, 'attempt', run.attempt, 'reason', run.reason, 'error', run.error, 'pages', run.pages,
        'tookMs', (extract(epoch from run.finished_at - run.started_at) * 1000)::float8)
      into   ended;
      return ended;
    end $$`,

    // Cancels what waits of the pages of an occurrence that is to be cancelled, and ends it if nothing of it is under
    // way. Returns its end; null when this has not ended it.
    `create or replace function @schema.pages_settle_1(its_job text, its_fire_time timestamptz) returns jsonb
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    begin
      perform pages_lock_1(its_job, its_fire_time);
      update job_pages page
      set    status = 'cancelled',
             reason = run.cancel_reason,
             finished_at = clock_timestamp(),
             next_attempt_at = null
      from   job_runs run
      where  page.job_name = its_job
      and    page.fire_time = its_fire_time
      and    page.status in ('queued', 'failed')
      and    run.job_name = its_job
      and    run.fire_time = its_fire_time
      and    run.status = 'fanned_out'
      and    run.cancel_requested_at is not null;
      return pages_end_run_1(its_job, its_fire_time);
    end $$`,

    // Writes the pages that are not there, if the run is its attempt's still. Behind the lock, for the tick may end
    // meanwhile (the answer to this was lost): the end counts all of its pages, or this finds it ended. Returns how
    // many were new; null when the run is no longer the attempt's.
    `create or replace function @schema.pages_publish_1(
      its_job text, its_fire_time timestamptz, its_attempt integer, its_instance text, its_pages text[], its_data text[]) returns integer
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    declare
      added integer;
    begin
      perform pages_lock_1(its_job, its_fire_time);
      if not receipt_may_end_1(its_job, its_fire_time, its_attempt, its_instance, null) then
        return null;
      end if;
      insert into job_pages (job_name, fire_time, page, data, next_attempt_at)
      select its_job, its_fire_time, given.page, given.data::jsonb, clock_timestamp()
      from   unnest(its_pages, its_data) as given (page, data)
      order  by given.page
      on     conflict (job_name, fire_time, page) do nothing;
      get diagnostics added = row_count;
      return added;
    end $$`,

    // Notes that the queue has these tickets. A page that is changed right now is handed over once more, which is
    // harmless.
    `create or replace function @schema.pages_handed_over_1(jobs text[], fire_times timestamptz[], pages text[], tickets integer[]) returns void
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    begin
      with handed as (
        select page.job_name, page.fire_time, page.page
        from   job_pages page
        join   unnest(jobs, fire_times, pages, tickets) as given (job_name, fire_time, page, ticket)
                 on given.job_name = page.job_name and given.fire_time = page.fire_time and given.page = page.page and given.ticket = page.ticket
        where  page.status in ('queued', 'failed')
        for    no key update of page skip locked
      )
      update job_pages page
      set    enqueued_at = clock_timestamp()
      from   handed
      where  page.job_name = handed.job_name
      and    page.fire_time = handed.fire_time
      and    page.page = handed.page;
    end $$`,

    // Completes a run that may have pages. If it has, it needs no lease and no owner from now on: the last of them ends
    // it, and when all have ended already, this does. Without pages it is done. Its status is null when the run is no
    // longer the attempt's.
    `create or replace function @schema.run_fan_out_1(
      its_job text, its_fire_time timestamptz, its_attempt integer, its_instance text,
      out status text, out reason text, out pages integer, out error jsonb)
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    declare
      published integer;
    begin
      perform pages_lock_1(its_job, its_fire_time);
      select count(*)
      into   published
      from   job_pages page
      where  page.job_name = its_job
      and    page.fire_time = its_fire_time;
      update job_runs run
      set    status = case when published > 0 then 'fanned_out' else 'done' end,
             pages = nullif(published, 0),
             lease_until = case when published > 0 then null else run.lease_until end,
             finished_at = case when published > 0 then null else clock_timestamp() end
      where  run.job_name = its_job
      and    run.fire_time = its_fire_time
      and    run_is_ours_1(its_attempt, its_instance, run.attempt, run.claimed_by, run.status, run.lease_until);
      perform pages_end_run_1(its_job, its_fire_time);
      select run.status, run.reason, run.pages, run.error
      into   status, reason, pages, error
      from   job_runs run
      where  run.job_name = its_job
      and    run.fire_time = its_fire_time
      and    run.attempt = its_attempt
      and    run.claimed_by = its_instance
      and    run.status in ('fanned_out', 'done', 'dead', 'cancelled');
    end $$`,

    // A delivery that could not begin its page. Of a run that waits it is given back: the page is handed over anew,
    // with another ticket, once the run is under way. 'held': somebody has the page's row, so that it is to be tried
    // again. A page that another delivery has begun since this one has looked at it is that one's.
    `create or replace function @schema.page_give_back_1(
      its_job text, its_fire_time timestamptz, its_page text, its_ticket integer, its_attempt integer) returns text
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
    declare
      is_open boolean;
    begin
      perform
      from   job_pages page
      where  page.job_name = its_job
      and    page.fire_time = its_fire_time
      and    page.page = its_page
      and    page.ticket = its_ticket
      and    page.attempt = its_attempt
      and    page_is_open_1(page.status)
      for    no key update skip locked;
      if found then
        -- The run is looked at when nobody else can begin the page any more.
        update job_pages page
        set    status = case page.status when 'running' then 'queued' else page.status end,
               next_attempt_at = coalesce(page.next_attempt_at, clock_timestamp()),
               claimed_by = null,
               enqueued_at = null,
               ticket = page.ticket + 1
        from   job_runs run
        where  page.job_name = its_job
        and    page.fire_time = its_fire_time
        and    page.page = its_page
        and    run.job_name = its_job
        and    run.fire_time = its_fire_time
        and    not run_works_pages_1(run.status, run.lease_until, run.cancel_requested_at)
        and    run.status in ('running', 'queued', 'failed', 'orphaned');
        if found then
          return 'over';
        end if;
      end if;
      select run.status in ('running', 'fanned_out', 'queued', 'failed', 'orphaned')
      into   is_open
      from   job_pages page
      join   job_runs run on run.job_name = page.job_name and run.fire_time = page.fire_time
      where  page.job_name = its_job
      and    page.fire_time = its_fire_time
      and    page.page = its_page
      and    page.ticket = its_ticket
      and    page.attempt = its_attempt
      and    page_is_open_1(page.status)
      and    run.cancel_requested_at is null;
      return case when is_open then 'held' else 'over' end;
    end $$`,

    // Begins the next attempt of a page. Who worked it before and has not ended it is dead, frozen, or cut off from the
    // queue: what it has open of receipts is ended, and what it writes from now on is refused. 'claimed', or what
    // page_give_back_1 says. A delivery that has looked at the page before names the attempt that it saw, and is given
    // it back as attempt where the page is held.
    `create or replace function @schema.page_begin_1(
      its_job text, its_fire_time timestamptz, its_page text, its_ticket integer, its_instance text, its_seen integer,
      out verdict text, out attempt integer, out releases integer, out data jsonb, out trigger text, out run_data jsonb)
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    begin
      select page.attempt
      into   attempt
      from   job_pages page
      where  page.job_name = its_job
      and    page.fire_time = its_fire_time
      and    page.page = its_page
      and    page.ticket = its_ticket
      and    page_is_open_1(page.status)
      and    page.attempt = coalesce(its_seen, page.attempt);
      if not found then
        verdict := 'over';
        return;
      end if;
      if attempt > 0 then
        perform receipt_transactions_end_1(its_job, its_fire_time, attempt, its_page);
      end if;
      its_seen := attempt;
      -- A receipt that is about to commit holds its page for key share, and is waited for: a lock of another strength would pass it.
      perform
      from   job_pages page
      where  page.job_name = its_job
      and    page.fire_time = its_fire_time
      and    page.page = its_page
      and    page.ticket = its_ticket
      and    page.attempt = its_seen
      and    page_is_open_1(page.status)
      for    update skip locked;
      if found then
        update job_pages page
        set    status = 'running',
               attempt = page.attempt + 1,
               claimed_by = its_instance,
               started_at = clock_timestamp(),
               finished_at = null,
               next_attempt_at = null,
               reason = null
        from   job_runs run
        where  page.job_name = its_job
        and    page.fire_time = its_fire_time
        and    page.page = its_page
        and    run.job_name = its_job
        and    run.fire_time = its_fire_time
        and    run_works_pages_1(run.status, run.lease_until, run.cancel_requested_at)
        returning page.attempt, page.releases, page.data, run.trigger, run.data
        into   attempt, releases, data, trigger, run_data;
        if found then
          verdict := 'claimed';
          return;
        end if;
      end if;
      verdict := page_give_back_1(its_job, its_fire_time, its_page, its_ticket, its_seen);
      attempt := its_seen;
    end $$`,

    // Ends an attempt of a page, and the occurrence when it was the last of its pages. One that is to be cancelled is
    // begun no more. The page's status is null when the page is no longer the attempt's. Asked again, because the
    // answer was lost, it finds what it wrote.
    `create or replace function @schema.page_end_1(
      its_job text, its_fire_time timestamptz, its_page text, its_attempt integer, its_instance text,
      its_status text, its_error text, its_reason text, retry_in_ms double precision, its_releases integer,
      out page_status text, out ended_run jsonb)
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    begin
      perform pages_lock_1(its_job, its_fire_time);
      update job_pages page
      set    status = became.status,
             error = its_error::jsonb,
             reason = case when became.status = its_status then its_reason else run.cancel_reason end,
             finished_at = clock_timestamp(),
             next_attempt_at = case when became.status in ('queued', 'failed') then clock_timestamp() + retry_in_ms * interval '1 millisecond' end,
             enqueued_at = null,
             ticket = page.ticket + 1,
             releases = page.releases + its_releases
      from   job_runs run
      cross  join lateral (
        select case when run.cancel_requested_at is not null and its_status in ('queued', 'failed') then 'cancelled' else its_status end as status) became
      where  page.job_name = its_job
      and    page.fire_time = its_fire_time
      and    page.page = its_page
      and    page_is_ours_1(its_attempt, its_instance, page.attempt, page.claimed_by, page.status)
      and    run.job_name = its_job
      and    run.fire_time = its_fire_time;
      ended_run := pages_end_run_1(its_job, its_fire_time);
      select page.status
      into   page_status
      from   job_pages page
      where  page.job_name = its_job
      and    page.fire_time = its_fire_time
      and    page.page = its_page
      and    page.attempt = its_attempt
      and    page.claimed_by = its_instance
      and    page.status <> 'running';
    end $$`,

    // Of these occurrences, queues again what is under way in processes that are gone, and what the queue seems to have
    // lost: of an occurrence in which nothing has moved for a while, whatever it was given. A queue that has not lost
    // it drops it, or delivers it once too often. What waits of a run that was cancelled before its tick had ended
    // waits for nobody. Returns how many are queued again.
    `create or replace function @schema.pages_recover_1(
      jobs text[], fire_times timestamptz[], gone_for_ms double precision, still_for_ms double precision) returns integer
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    declare
      of_gone integer;
      of_queue integer;
    begin
      with gone as (
        select page.job_name, page.fire_time, page.page
        from   job_pages page
        where  page.status = 'running'
        and   (page.job_name, page.fire_time) in (select * from unnest(jobs, fire_times))
        and    page.started_at < clock_timestamp() - gone_for_ms * interval '1 millisecond'
        and    not exists (
                 select from job_instances instance
                 where  instance.id = page.claimed_by
                 and    instance.alive_until > clock_timestamp() - gone_for_ms * interval '1 millisecond')
        for    update skip locked
      )
      update job_pages page
      set    status = 'queued',
             ticket = page.ticket + 1,
             claimed_by = null,
             enqueued_at = null,
             next_attempt_at = clock_timestamp(),
             reason = 'its instance is gone'
      from   gone
      where  page.job_name = gone.job_name
      and    page.fire_time = gone.fire_time
      and    page.page = gone.page;
      get diagnostics of_gone = row_count;
      with still as materialized (
        select run.job_name, run.fire_time
        from   job_runs run
        where  run.status in ('running', 'fanned_out')
        and   (run.job_name, run.fire_time) in (select * from unnest(jobs, fire_times))
        and    not exists (
                 select from job_pages page
                 where  page.job_name = run.job_name
                 and    page.fire_time = run.fire_time
                 and   (page.status = 'running' or greatest(page.started_at, page.finished_at) > clock_timestamp() - still_for_ms * interval '1 millisecond'))
      ),
      lost as (
        select page.job_name, page.fire_time, page.page
        from   still
        join   job_pages page on page.job_name = still.job_name and page.fire_time = still.fire_time
        where  page.status in ('queued', 'failed')
        and    page.enqueued_at < clock_timestamp() - still_for_ms * interval '1 millisecond'
        for    no key update of page skip locked
      )
      update job_pages page
      set    enqueued_at = null,
             ticket = page.ticket + 1
      from   lost
      where  page.job_name = lost.job_name
      and    page.fire_time = lost.fire_time
      and    page.page = lost.page;
      get diagnostics of_queue = row_count;
      with left_over as (
        select page.job_name, page.fire_time, page.page, run.reason
        from   job_pages page
        join   job_runs run on run.job_name = page.job_name and run.fire_time = page.fire_time
        where  page.status in ('queued', 'failed')
        and   (page.job_name, page.fire_time) in (select * from unnest(jobs, fire_times))
        and    run.status = 'cancelled'
        for    no key update of page skip locked
        for    share of run skip locked
      )
      update job_pages page
      set    status = 'cancelled',
             reason = left_over.reason,
             finished_at = clock_timestamp(),
             next_attempt_at = null
      from   left_over
      where  page.job_name = left_over.job_name
      and    page.fire_time = left_over.fire_time
      and    page.page = left_over.page;
      return of_gone + of_queue;
    end $$`,
  ],
  down: [
    `drop function if exists @schema.pages_recover_1`,
    `drop function if exists @schema.page_end_1`,
    `drop function if exists @schema.page_begin_1`,
    `drop function if exists @schema.page_give_back_1`,
    `drop function if exists @schema.run_fan_out_1`,
    `drop function if exists @schema.pages_handed_over_1`,
    `drop function if exists @schema.pages_publish_1`,
    `drop function if exists @schema.pages_settle_1`,
    `drop function if exists @schema.pages_end_run_1`,
    `drop function if exists @schema.run_works_pages_1`,
    `drop function if exists @schema.page_is_open_1`,
    `drop function if exists @schema.pages_lock_1`,
  ],
});
