import { migration } from './frozen.js';

/**
 * Creates the functions of receipts and of what a handler writes about its own run. They are called over the
 * application's connections, too, whose own rules may read a boolean or JSON in another way: their answers are texts.
 */
export const createReceiptFunctions = migration('CreateReceiptFunctions1796000000011', {
  up: [
    // What is committed now is kept when the server crashes, although the role or the database would not wait for that.
    // It is called where somebody outside of the database acts on what was committed. What waits for less than a
    // standby is left as it is.
    `create or replace function @schema.commit_durably_1() returns void language plpgsql as $$
    begin
      if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'on', true);
      end if;
    end $$`,

    // The run is this attempt's still, and so is the page if there is one. A page has no lease: it is its worker's
    // until the queue has delivered it again, and whoever got that has raised the attempt.
    `create or replace function @schema.receipt_is_ours_1(
      its_job text, its_fire_time timestamptz, its_attempt integer, its_instance text, its_page text) returns boolean
    language plpgsql as $$
    begin
      if its_page is null then
        perform
        from   @schema.job_runs run
        where  run.job_name = its_job
        and    run.fire_time = its_fire_time
        and    @schema.run_is_ours_1(its_attempt, its_instance, run.attempt, run.claimed_by, run.status, run.lease_until);
      else
        perform
        from   @schema.job_pages page
        where  page.job_name = its_job
        and    page.fire_time = its_fire_time
        and    page.page = its_page
        and    @schema.page_is_ours_1(its_attempt, its_instance, page.attempt, page.claimed_by, page.status);
      end if;
      return found;
    end $$`,

    // Asked before an effect. The lock is taken before the look, and before the receipt may have to wait for another:
    // whoever takes the attempt over finds the transaction by it, and ends it.
    `create or replace function @schema.receipt_may_begin_1(
      its_job text, its_fire_time timestamptz, its_attempt integer, its_instance text, its_page text) returns boolean
    language plpgsql as $$
    begin
      perform pg_advisory_xact_lock_shared(@schema.receipt_lock_1(its_job, its_fire_time, its_attempt, its_page));
      return @schema.receipt_is_ours_1(its_job, its_fire_time, its_attempt, its_instance, its_page);
    end $$`,

    // Asked after an effect. The lock lets heartbeats pass: were it stronger, a process that is busy before its commit
    // would hold up all its leases.
    `create or replace function @schema.receipt_may_end_1(
      its_job text, its_fire_time timestamptz, its_attempt integer, its_instance text, its_page text) returns boolean
    language plpgsql as $$
    begin
      if its_page is null then
        perform
        from   @schema.job_runs run
        where  run.job_name = its_job
        and    run.fire_time = its_fire_time
        and    @schema.run_is_ours_1(its_attempt, its_instance, run.attempt, run.claimed_by, run.status, run.lease_until)
        for    key share;
      else
        perform
        from   @schema.job_pages page
        where  page.job_name = its_job
        and    page.fire_time = its_fire_time
        and    page.page = its_page
        and    @schema.page_is_ours_1(its_attempt, its_instance, page.attempt, page.claimed_by, page.status)
        for    key share;
      end if;
      return found;
    end $$`,

    // Fails the message that it is in: the commit behind it is not carried out.
    `create or replace function @schema.refuse_1() returns void language plpgsql as $$
    begin
      raise exception 'nestjs-distributed-cron: the run is no longer ours' using errcode = 'NDC01';
    end $$`,

    // What an effect returned, JSON in UTF-8 in base64, as it is kept: null when this database can't hold it, for its
    // encoding lacks a character of it, or it is nested too deeply. The effect has happened all the same.
    `create or replace function @schema.receipt_result_1(its_result text) returns jsonb language plpgsql as $$
    begin
      return convert_from(decode(its_result, 'base64'), 'UTF8')::jsonb;
    exception when data_exception or program_limit_exceeded then
      return null;
    end $$`,

    // Writes the receipt unless it is there. 'opened': it was not. 'there': with the result that it keeps, as JSON.
    // 'external': it is one of a call.
    `create or replace function @schema.receipt_write_1(
      its_job text, its_fire_time timestamptz, its_attempt integer, its_instance text, its_entity text, its_effect text, its_key text,
      out verdict text, out kept text)
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    begin
      insert into receipts (job_name, fire_time, attempt, claimed_by, entity, effect, idempotency_key)
      values (its_job, its_fire_time, its_attempt, its_instance, its_entity, its_effect, its_key)
      on     conflict (job_name, fire_time, entity, effect) do nothing;
      if found then
        verdict := 'opened';
      else
        select case when opened_at is null then 'there' else 'external' end, result::text
        into   verdict, kept
        from   receipts
        where  job_name = its_job
        and    fire_time = its_fire_time
        and    entity = its_entity
        and    effect = its_effect;
        verdict := coalesce(verdict, 'there');
      end if;
    end $$`,

    // Writes the receipt before its effect, if the attempt is the owner's. It waits for a transaction that is about to
    // write the same.
    // 'refused', or what receipt_write_1 says. In a transaction of the receipt's own, the commit is made durable.
    `create or replace function @schema.receipt_begin_1(
      its_job text, its_fire_time timestamptz, its_attempt integer, its_instance text, its_page text,
      its_entity text, its_effect text, its_key text, is_own boolean, out verdict text, out kept text)
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    begin
      if is_own then
        perform commit_durably_1();
      end if;
      if receipt_may_begin_1(its_job, its_fire_time, its_attempt, its_instance, its_page) then
        select receipt.verdict, receipt.kept
        into   verdict, kept
        from   receipt_write_1(its_job, its_fire_time, its_attempt, its_instance, its_entity, its_effect, its_key) receipt;
        -- It may have waited.
        if verdict = 'opened' or receipt_is_ours_1(its_job, its_fire_time, its_attempt, its_instance, its_page) then
          return;
        end if;
      end if;
      verdict := 'refused';
      kept := null;
    end $$`,

    // The same for many entities, in one order everywhere, so that batches that meet wait for each other and never in a
    // circle. No row:
    // the attempt is no longer the owner's. Otherwise one without an entity, and one for each that was not there.
    `create or replace function @schema.receipt_begin_all_1(
      its_job text, its_fire_time timestamptz, its_attempt integer, its_instance text, its_page text,
      its_effect text, its_entities text[], its_keys text[]) returns table (begun text)
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    begin
      perform commit_durably_1();
      if not receipt_may_begin_1(its_job, its_fire_time, its_attempt, its_instance, its_page) then
        return;
      end if;
      return next;
      return query
      insert into receipts (job_name, fire_time, attempt, claimed_by, entity, effect, idempotency_key)
      select its_job, its_fire_time, its_attempt, its_instance, wanted.entity, its_effect, wanted.idempotency_key
      from   unnest(its_entities, its_keys) as wanted (entity, idempotency_key)
      order  by wanted.entity collate "C"
      on     conflict (job_name, fire_time, entity, effect) do nothing
      returning entity;
    end $$`,

    // The receipt of an occurrence, whoever runs it: no lease, so no fence. In a transaction of its own no reaper ends
    // it: the server must, when its process is frozen.
    `create or replace function @schema.receipt_begin_for_occurrence_1(
      its_job text, its_fire_time timestamptz, its_writer text, its_entity text, its_effect text, its_key text, is_own boolean, most_idle_ms integer,
      out verdict text, out kept text, out of_attempt text)
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    begin
      if is_own then
        perform commit_durably_1();
        perform set_config('idle_in_transaction_session_timeout', most_idle_ms::text, true);
      end if;
      select attempt
      into   of_attempt
      from   job_runs
      where  job_name = its_job
      and    fire_time = its_fire_time;
      if found then
        select receipt.verdict, receipt.kept
        into   verdict, kept
        from   receipt_write_1(its_job, its_fire_time, of_attempt::integer, its_writer, its_entity, its_effect, its_key) receipt;
      else
        verdict := 'refused';
      end if;
    end $$`,

    // The first statement of a receipt in a transaction whose snapshot is older than the lease: holds the attempt in
    // whatever state it is, so that what a look from outside finds holds until the end.
    `create or replace function @schema.receipt_hold_1(
      its_job text, its_fire_time timestamptz, its_attempt integer, its_instance text, its_page text) returns text
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    begin
      perform pg_advisory_xact_lock_shared(receipt_lock_1(its_job, its_fire_time, its_attempt, its_page));
      if its_page is null then
        perform
        from   job_runs
        where  job_name = its_job
        and    fire_time = its_fire_time
        and    attempt = its_attempt
        and    claimed_by = its_instance
        for    key share;
      else
        perform
        from   job_pages
        where  job_name = its_job
        and    fire_time = its_fire_time
        and    page = its_page
        and    attempt = its_attempt
        and    claimed_by = its_instance
        for    key share;
      end if;
      return case when found then 'held' else 'refused' end;
    end $$`,

    // Keeps what an effect returned.
    `create or replace function @schema.receipt_keep_1(its_job text, its_fire_time timestamptz, its_entity text, its_effect text, its_result text) returns void
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    begin
      update receipts
      set    result = receipt_result_1(its_result)
      where  job_name = its_job
      and    fire_time = its_fire_time
      and    entity = its_entity
      and    effect = its_effect;
    end $$`,

    // Keeps the effect's result, and fails when the attempt is no longer the owner's: nothing of it may be committed.
    `create or replace function @schema.receipt_end_1(
      its_job text, its_fire_time timestamptz, its_attempt integer, its_instance text, its_page text,
      its_entity text, its_effect text, its_result text) returns void
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    begin
      if its_result is not null then
        perform receipt_keep_1(its_job, its_fire_time, its_entity, its_effect, its_result);
      end if;
      if not receipt_may_end_1(its_job, its_fire_time, its_attempt, its_instance, its_page) then
        perform refuse_1();
      end if;
    end $$`,

    // What an attempt does about the receipt of a call that is there: 'skip', for it happened; 'call', for it surely
    // did not; 'call again'; 'park'; 'leave', for it is a person's already; 'refuse', for it stands for an effect in
    // the database. One that is open was cut off.
    `create or replace function @schema.receipt_call_step_1(state text, is_external boolean, policy text) returns text
    language sql immutable as $$
      select case
        when not is_external then 'refuse'
        when state = 'done' then 'skip'
        when state = 'undone' then 'call'
        when policy = 'resend' then 'call again'
        when state = 'open' then 'park'
        else 'leave'
      end
    $$`,

    // Opens the receipt of a call, to be committed before the call is made, or says what the one that is there means: a
    // step of receipt_call_step_1, or 'refused', for the attempt is no longer the owner's.
    `create or replace function @schema.receipt_call_open_1(
      its_job text, its_fire_time timestamptz, its_attempt integer, its_instance text, its_page text,
      its_entity text, its_effect text, its_key text, its_policy text,
      out step text, out key text, out of_attempt text, out kept text, out failure text)
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    declare
      there receipts;
    begin
      perform commit_durably_1();
      if not receipt_may_begin_1(its_job, its_fire_time, its_attempt, its_instance, its_page) then
        step := 'refused';
        return;
      end if;
      insert into receipts (job_name, fire_time, attempt, claimed_by, entity, effect, idempotency_key, state, opened_at)
      values (its_job, its_fire_time, its_attempt, its_instance, its_entity, its_effect, its_key, 'open', clock_timestamp())
      on     conflict (job_name, fire_time, entity, effect) do nothing;
      if found then
        step := 'call';
        key := its_key;
        return;
      end if;
      select *
      into   there
      from   receipts
      where  job_name = its_job
      and    fire_time = its_fire_time
      and    entity = its_entity
      and    effect = its_effect
      for    update;
      -- It may have waited.
      if not found or not receipt_is_ours_1(its_job, its_fire_time, its_attempt, its_instance, its_page) then
        step := 'refused';
        return;
      end if;
      step := receipt_call_step_1(there.state, there.opened_at is not null, its_policy);
      key := there.idempotency_key;
      of_attempt := there.attempt;
      kept := there.result;
      failure := there.error;
      if step = 'park' then
        update receipts
        set    state = 'in_doubt'
        where  job_name = its_job
        and    fire_time = its_fire_time
        and    entity = its_entity
        and    effect = its_effect;
      elsif step in ('call', 'call again') then
        update receipts
        set    state = 'open',
               attempt = its_attempt,
               claimed_by = its_instance,
               opened_at = clock_timestamp(),
               closed_at = null,
               result = null,
               error = null,
               resolved_by = null,
               resolved_reason = null
        where  job_name = its_job
        and    fire_time = its_fire_time
        and    entity = its_entity
        and    effect = its_effect;
      end if;
    end $$`,

    // The call has been answered: that is a fact, whatever has become of the run since. 'late': it is kept, and the
    // attempt is no longer the owner's. 'refused': the call was made again since, or a person has decided about it.
    `create or replace function @schema.receipt_call_close_1(
      its_job text, its_fire_time timestamptz, its_attempt integer, its_instance text, its_page text,
      its_entity text, its_effect text, its_result text) returns text
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    begin
      perform commit_durably_1();
      update receipts
      set    state = 'done',
             result = receipt_result_1(its_result),
             error = null,
             closed_at = clock_timestamp()
      where  job_name = its_job
      and    fire_time = its_fire_time
      and    attempt = its_attempt
      and    claimed_by = its_instance
      and    entity = its_entity
      and    effect = its_effect
      and    state in ('open', 'in_doubt', 'done')
      and    resolved_by is null;
      if not found then
        return 'refused';
      end if;
      return case when receipt_is_ours_1(its_job, its_fire_time, its_attempt, its_instance, its_page) then 'closed' else 'late' end;
    end $$`,

    // The call has failed. 'open', 'in_doubt' or 'undone' is what becomes of a receipt that is open; one that is a
    // person's already stays so, with the error. Returns 'became' when it has become that now.
    `create or replace function @schema.receipt_call_fail_1(
      its_job text, its_fire_time timestamptz, its_attempt integer, its_instance text,
      its_entity text, its_effect text, its_error text, becomes text) returns text
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    declare
      was text;
    begin
      perform commit_durably_1();
      select state
      into   was
      from   receipts
      where  job_name = its_job
      and    fire_time = its_fire_time
      and    attempt = its_attempt
      and    claimed_by = its_instance
      and    entity = its_entity
      and    effect = its_effect
      and    state in ('open', 'in_doubt')
      for    update;
      if not found then
        return 'left';
      end if;
      update receipts
      set    state = case was when 'open' then becomes else was end,
             closed_at = case when was = 'open' and becomes = 'undone' then clock_timestamp() end,
             error = its_error::jsonb
      where  job_name = its_job
      and    fire_time = its_fire_time
      and    entity = its_entity
      and    effect = its_effect;
      return case was when 'open' then 'became' else 'left' end;
    end $$`,

    // No page of the occurrence is under way.
    `create or replace function @schema.receipt_has_no_page_1(its_job text, its_fire_time timestamptz) returns boolean
    language sql stable as $$
      select not exists (
        select from @schema.job_pages page where page.job_name = its_job and page.fire_time = its_fire_time and page.status = 'running')
    $$`,

    // Nobody will find out by itself what came of the call. What is open goes on with its run, while that has an
    // attempt or will have one, and with the pages under way of one whose tick has failed for good. The run's status is
    // null where its row is gone.
    `create or replace function @schema.receipt_is_in_doubt_1(state text, run_status text, its_job text, its_fire_time timestamptz) returns boolean
    language sql stable as $$
      select state = 'in_doubt'
      or     state = 'open'
             and coalesce(run_status, 'gone') not in ('queued', 'running', 'fanned_out', 'failed', 'orphaned')
             and @schema.receipt_has_no_page_1(its_job, its_fire_time)
    $$`,

    // The receipts in doubt that a person asks for, the oldest first; so many at most, or all.
    `create or replace function @schema.receipts_in_doubt_1(
      of_job text, of_fire_time timestamptz, at_or_after timestamptz, at_or_before timestamptz, of_entity text, of_effect text, of_key text, most integer)
    returns table (job_name text, fire_time timestamptz, entity text, effect text, state text, attempt integer, claimed_by text,
      opened_at timestamptz, idempotency_key text, error jsonb, run_status text)
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    begin
      return query
      select receipt.job_name, receipt.fire_time, receipt.entity, receipt.effect, receipt.state, receipt.attempt, receipt.claimed_by,
             receipt.opened_at, receipt.idempotency_key, receipt.error, run.status
      from   receipts receipt
      left   join job_runs run on run.job_name = receipt.job_name and run.fire_time = receipt.fire_time
      where  receipt.state in ('open', 'in_doubt')
      and    receipt_is_in_doubt_1(receipt.state, run.status, receipt.job_name, receipt.fire_time)
      and   (of_job is null or receipt.job_name = of_job)
      and   (of_fire_time is null or receipt.fire_time = of_fire_time)
      and   (at_or_after is null or receipt.fire_time >= at_or_after)
      and   (at_or_before is null or receipt.fire_time <= at_or_before)
      and   (of_entity is null or receipt.entity = of_entity)
      and   (of_effect is null or receipt.effect = of_effect)
      and   (of_key is null or receipt.idempotency_key = of_key)
      order  by receipt.opened_at, receipt.job_name, receipt.entity, receipt.effect
      limit  most;
    end $$`,

    // Keeps what a person says came of calls in doubt, and records it for each. One whose call is made again, or
    // answered, right now is not changed.
    `create or replace function @schema.receipts_resolve_1(
      of_job text, of_fire_time timestamptz, at_or_after timestamptz, at_or_before timestamptz, of_entity text, of_effect text, of_key text,
      most integer, its_state text, its_answer text, its_actor text, its_reason text,
      out changed jsonb, out left_over integer)
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off set lock_timeout = '2s' as $$
    begin
      perform commit_durably_1();
      with matching as materialized (
        select doubt.job_name, doubt.fire_time, doubt.entity, doubt.effect, doubt.state, doubt.attempt
        from   receipts_in_doubt_1(of_job, of_fire_time, at_or_after, at_or_before, of_entity, of_effect, of_key, null) doubt
      ),
      picked as materialized (
        select receipt.job_name, receipt.fire_time, receipt.entity, receipt.effect
        from   receipts receipt
        join   matching using (job_name, fire_time, entity, effect)
        where  receipt.state = matching.state
        and    receipt.attempt = matching.attempt
        order  by receipt.fire_time, receipt.job_name, receipt.entity, receipt.effect
        limit  most
        for    update of receipt
      ),
      resolved as (
        update receipts receipt
        set    state = its_state,
               result = receipt_result_1(its_answer),
               closed_at = clock_timestamp(),
               resolved_by = its_actor,
               resolved_reason = its_reason
        from   picked
        where  receipt.job_name = picked.job_name
        and    receipt.fire_time = picked.fire_time
        and    receipt.entity = picked.entity
        and    receipt.effect = picked.effect
        returning receipt.job_name, receipt.fire_time, receipt.entity, receipt.effect, receipt.idempotency_key
      ),
      recorded as (
        insert into job_actions (action, job_name, fire_time, actor, reason, details)
        select 'resolve in doubt', job_name, fire_time, its_actor, its_reason,
               jsonb_build_object('entity', entity, 'effect', effect, 'as', its_state, 'idempotencyKey', idempotency_key)
        from   resolved
        order  by fire_time, job_name, entity, effect
      )
      select coalesce((select jsonb_agg(jsonb_build_array(job_name, fire_time, entity, effect) order by fire_time, job_name, entity, effect) from resolved), '[]'),
            (select count(*)::integer from matching) - (select count(*)::integer from resolved)
      into   changed, left_over;
    end $$`,

    // Parks the calls of runs that have ended without their answer: no attempt follows that would find them. The run is
    // held: one that is replayed at this moment may have opened the receipt anew.
    `create or replace function @schema.receipts_park_ended_1(most integer)
    returns table (job_name text, fire_time timestamptz, entity text, effect text, attempt integer, error jsonb)
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    begin
      return query
      with ended as materialized (
        select receipt.job_name, receipt.fire_time, receipt.entity, receipt.effect
        from   receipts receipt
        join   job_runs run on run.job_name = receipt.job_name and run.fire_time = receipt.fire_time
        where  receipt.state = 'open'
        and    run.status in ('done', 'dead', 'cancelled', 'skipped')
        and    receipt_has_no_page_1(receipt.job_name, receipt.fire_time)
        order  by receipt.fire_time, receipt.job_name, receipt.entity, receipt.effect
        limit  most
        for    update of receipt skip locked
        for    share of run skip locked
      )
      update receipts receipt
      set    state = 'in_doubt'
      from   ended
      where  receipt.job_name = ended.job_name
      and    receipt.fire_time = ended.fire_time
      and    receipt.entity = ended.entity
      and    receipt.effect = ended.effect
      and    receipt.state = 'open'
      returning receipt.job_name, receipt.fire_time, receipt.entity, receipt.effect, receipt.attempt, receipt.error;
    end $$`,

    // The first statement of a run's own transaction. 'ours', or 'refused'.
    `create or replace function @schema.run_step_begin_1(its_job text, its_fire_time timestamptz, its_attempt integer, its_instance text) returns text
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    begin
      perform commit_durably_1();
      return case when receipt_may_begin_1(its_job, its_fire_time, its_attempt, its_instance, null) then 'ours' else 'refused' end;
    end $$`,

    // Keeps a checkpoint; null for none. 'saved', or 'refused'.
    `create or replace function @schema.run_checkpoint_1(
      its_job text, its_fire_time timestamptz, its_attempt integer, its_instance text, its_checkpoint text) returns text
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    begin
      update job_runs
      set    checkpoint = its_checkpoint::jsonb
      where  job_name = its_job
      and    fire_time = its_fire_time
      and    run_is_ours_1(its_attempt, its_instance, attempt, claimed_by, status, lease_until);
      return case when found then 'saved' else 'refused' end;
    end $$`,

    // The last statement of a run's own transaction, sent with its commit: fails when the run is no longer ours.
    // Completes the run, or keeps a checkpoint, or both; where it does neither it holds the run, so that nobody takes
    // it over before the commit.
    `create or replace function @schema.run_step_end_1(
      its_job text, its_fire_time timestamptz, its_attempt integer, its_instance text, its_checkpoint text, is_complete boolean) returns void
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    begin
      if is_complete then
        update job_runs
        set    status = 'done',
               finished_at = clock_timestamp(),
               checkpoint = coalesce(its_checkpoint::jsonb, checkpoint)
        where  job_name = its_job
        and    fire_time = its_fire_time
        and    run_is_ours_1(its_attempt, its_instance, attempt, claimed_by, status, lease_until);
        if found then
          return;
        end if;
      elsif its_checkpoint is null then
        if receipt_may_end_1(its_job, its_fire_time, its_attempt, its_instance, null) then
          return;
        end if;
      elsif run_checkpoint_1(its_job, its_fire_time, its_attempt, its_instance, its_checkpoint) = 'saved' then
        return;
      end if;
      perform refuse_1();
    end $$`,

    // Ends the transaction in which an attempt of a page, or a run, still holds a receipt. Returns how many were ended.
    `create or replace function @schema.receipt_transactions_end_1(its_job text, its_fire_time timestamptz, its_attempt integer, its_page text) returns integer
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    declare
      ended integer;
    begin
      select count(pg_terminate_backend(held.pid))
      into   ended
      from   pg_locks held
      join   pg_stat_activity backend on backend.pid = held.pid and may_end_sessions_of_1(backend.usesysid)
      where  held.locktype = 'advisory'
      and    held.objsubid = 1
      and    held.granted
      and    held.database = (select oid from pg_database where datname = current_database())
      and    (held.classid::bigint << 32) | held.objid::bigint = receipt_lock_1(its_job, its_fire_time, its_attempt, its_page);
      return ended;
    end $$`,
  ],
  down: [
    `drop function if exists @schema.receipt_transactions_end_1`,
    `drop function if exists @schema.run_step_end_1`,
    `drop function if exists @schema.run_checkpoint_1`,
    `drop function if exists @schema.run_step_begin_1`,
    `drop function if exists @schema.receipts_park_ended_1`,
    `drop function if exists @schema.receipts_resolve_1`,
    `drop function if exists @schema.receipts_in_doubt_1`,
    `drop function if exists @schema.receipt_is_in_doubt_1`,
    `drop function if exists @schema.receipt_has_no_page_1`,
    `drop function if exists @schema.receipt_call_fail_1`,
    `drop function if exists @schema.receipt_call_close_1`,
    `drop function if exists @schema.receipt_call_open_1`,
    `drop function if exists @schema.receipt_call_step_1`,
    `drop function if exists @schema.receipt_end_1`,
    `drop function if exists @schema.receipt_keep_1`,
    `drop function if exists @schema.receipt_hold_1`,
    `drop function if exists @schema.receipt_begin_for_occurrence_1`,
    `drop function if exists @schema.receipt_begin_all_1`,
    `drop function if exists @schema.receipt_begin_1`,
    `drop function if exists @schema.receipt_write_1`,
    `drop function if exists @schema.receipt_result_1`,
    `drop function if exists @schema.refuse_1`,
    `drop function if exists @schema.receipt_may_end_1`,
    `drop function if exists @schema.receipt_may_begin_1`,
    `drop function if exists @schema.receipt_is_ours_1`,
    `drop function if exists @schema.commit_durably_1`,
  ],
});
