import { migration } from './frozen.js';

/** Creates the functions that every receipt asks before and after its effect. */
export const createReceiptFunctions = migration('CreateReceiptFunctions1796000000011', {
  up: [
    // The run, or the page, is this attempt's still. Its lock is taken before the receipt may have to wait for another: whoever takes
    // the run over ends the transaction by it.
    `create or replace function @schema.receipt_may_begin_1(
      its_job text, its_fire_time timestamptz, its_attempt integer, its_instance text, its_page text) returns boolean
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
    begin
      if its_page is null then
        perform pg_advisory_xact_lock_shared(receipt_lock_1(its_job, its_fire_time, its_attempt, null))
        from   job_runs
        where  job_name = its_job
        and    fire_time = its_fire_time
        and    attempt = its_attempt
        and    claimed_by = its_instance
        and    run_is_leased_1(status, lease_until);
      else
        perform pg_advisory_xact_lock_shared(receipt_lock_1(its_job, its_fire_time, its_attempt, its_page))
        from   job_pages
        where  job_name = its_job
        and    fire_time = its_fire_time
        and    page = its_page
        and    attempt = its_attempt
        and    claimed_by = its_instance
        and    status = 'running';
      end if;
      return found;
    end $$`,

    // The lock lets heartbeats pass: were it stronger, a process that is busy before its commit would hold up all its leases.
    `create or replace function @schema.receipt_may_end_1(
      its_job text, its_fire_time timestamptz, its_attempt integer, its_instance text, its_page text) returns boolean
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
    begin
      if its_page is null then
        perform
        from   job_runs
        where  job_name = its_job
        and    fire_time = its_fire_time
        and    attempt = its_attempt
        and    claimed_by = its_instance
        and    run_is_leased_1(status, lease_until)
        for    key share;
      else
        perform
        from   job_pages
        where  job_name = its_job
        and    fire_time = its_fire_time
        and    page = its_page
        and    attempt = its_attempt
        and    claimed_by = its_instance
        and    status = 'running'
        for    key share;
      end if;
      return found;
    end $$`,

    // Writes the receipt before its effect. False: it is there, or the attempt is no longer the owner.
    `create or replace function @schema.receipt_begin_1(
      its_job text, its_fire_time timestamptz, its_attempt integer, its_instance text, its_page text,
      its_entity text, its_effect text, its_key text) returns boolean
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
    begin
      insert into receipts (job_name, fire_time, attempt, claimed_by, entity, effect, idempotency_key)
      select its_job, its_fire_time, its_attempt, its_instance, its_entity, its_effect, its_key
      where  receipt_may_begin_1(its_job, its_fire_time, its_attempt, its_instance, its_page)
      on     conflict (job_name, fire_time, entity, effect) do nothing;
      return found;
    end $$`,

    // Keeps the effect's result. False: the attempt is no longer the owner, and nothing of it may be committed.
    `create or replace function @schema.receipt_end_1(
      its_job text, its_fire_time timestamptz, its_attempt integer, its_instance text, its_page text,
      its_entity text, its_effect text, its_result text) returns boolean
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
    begin
      if its_result is not null then
        update receipts
        set    result = its_result::jsonb
        where  job_name = its_job
        and    fire_time = its_fire_time
        and    entity = its_entity
        and    effect = its_effect;
      end if;
      return receipt_may_end_1(its_job, its_fire_time, its_attempt, its_instance, its_page);
    end $$`,
  ],
  down: [
    `drop function if exists @schema.receipt_end_1`,
    `drop function if exists @schema.receipt_begin_1`,
    `drop function if exists @schema.receipt_may_end_1`,
    `drop function if exists @schema.receipt_may_begin_1`,
  ],
});
