import { migration } from './frozen.js';

/**
 * Creates the rules that several transitions ask, each once. Those without a table are expressions, which PostgreSQL
 * puts in the place of their call: an index of a status still serves them. The number at the end of a name is the
 * version of the protocol: a later release adds functions with the next one beside these, so that replicas of both
 * releases run side by side.
 */
export const createRules = migration('CreateRules1796000000009', {
  up: [
    // The key of the lock behind which the occurrences of a job are claimed.
    `create or replace function @schema.job_lock_1(job text) returns bigint language sql immutable as $$
      select hashtextextended('nestjs-distributed-cron:job:' || @schema_text || ':' || job, 0)
    $$`,

    // Takes the locks of jobs until the transaction ends, in one order everywhere: two batches never wait for each
    // other crosswise.
    `create or replace function @schema.job_lock_all_1(jobs text[]) returns void language plpgsql
    set search_path = @schema, pg_temp as $$
    declare
      its_job text;
    begin
      for its_job in select distinct job collate "C" from unnest(jobs) as job order by 1 loop
        perform pg_advisory_xact_lock(job_lock_1(its_job));
      end loop;
    end $$`,

    // The key that every open receipt of one attempt, of a run or of a page, holds (shared) until its transaction ends.
    // It tells whose transaction has to be ended when the attempt is taken over.
    `create or replace function @schema.receipt_lock_1(job text, fire_time timestamptz, attempt integer, page text) returns bigint
    language sql stable as $$
      select hashtextextended(
        'nestjs-distributed-cron:receipt:' || jsonb_build_array(@schema_text, job, extract(epoch from fire_time), attempt, page)::text, 0)
    $$`,

    // Has every instance look at once when the transaction commits: 'runs', 'jobs', or 'told <instance>' for one of
    // them. A hint:
    // they look at their next poll in any case. Not for claims and ends: commits that notify wait for each other, all
    // over the server.
    `create or replace function @schema.wake_1(what text) returns void language sql volatile as $$
      select pg_notify('nestjs_distributed_cron_' || left(encode(sha256(convert_to(@schema_text, 'UTF8')), 'hex'), 16), what)
    $$`,

    // An operator has paused the job, and that is not over.
    `create or replace function @schema.job_is_paused_1(paused_at timestamptz, paused_until timestamptz) returns boolean language sql volatile as $$
      select paused_at is not null and (paused_until is null or paused_until > clock_timestamp())
    $$`,

    // An operator holds the job back right now: it is disabled, or paused.
    `create or replace function @schema.job_is_held_1(enabled boolean, paused_at timestamptz, paused_until timestamptz) returns boolean
    language sql volatile as $$
      select not enabled or @schema.job_is_paused_1(paused_at, paused_until)
    $$`,

    // The flag is turned off in the table. One without a row is on, and so is none.
    `create or replace function @schema.flag_is_off_1(flag text) returns boolean language sql stable as $$
      select exists (select from @schema.job_flags switch where switch.name = flag and not switch.is_on)
    $$`,

    // The run waits for its next attempt.
    `create or replace function @schema.run_waits_1(status text) returns boolean language sql immutable as $$
      select status in ('queued', 'failed', 'orphaned')
    $$`,

    // An instance has the run, and its lease holds.
    `create or replace function @schema.run_is_leased_1(status text, lease_until timestamptz) returns boolean language sql volatile as $$
      select status = 'running' and lease_until > clock_timestamp()
    $$`,

    // The run is this attempt's, and this instance's, still: the fence of whatever they write.
    `create or replace function @schema.run_is_ours_1(
      its_attempt integer, its_instance text, attempt integer, claimed_by text, status text, lease_until timestamptz) returns boolean
    language sql volatile as $$
      select attempt = its_attempt and claimed_by = its_instance and @schema.run_is_leased_1(status, lease_until)
    $$`,

    // The page is this attempt's, and this instance's, still: the fence of whatever they write. It has no lease.
    `create or replace function @schema.page_is_ours_1(
      its_attempt integer, its_instance text, attempt integer, claimed_by text, status text) returns boolean
    language sql immutable as $$
      select attempt = its_attempt and claimed_by = its_instance and status = 'running'
    $$`,

    // The run has an instance whose lease ran out.
    `create or replace function @schema.run_is_expired_1(status text, lease_until timestamptz) returns boolean language sql volatile as $$
      select status = 'running' and lease_until <= clock_timestamp()
    $$`,

    // The run is under way: its lease holds, or it is its pages', which need no lease.
    `create or replace function @schema.run_is_under_way_1(status text, lease_until timestamptz) returns boolean
    language sql volatile as $$
      select status in ('running', 'fanned_out') and (status = 'fanned_out' or lease_until > clock_timestamp())
    $$`,

    // A person asked for the run, beside the schedule. Occurrences of the schedule wait for it, and are not skipped
    // because of it.
    `create or replace function @schema.run_is_asked_for_1(trigger text) returns boolean language sql immutable as $$
      select trigger in ('backfill', 'manual')
    $$`,

    // The run is an occurrence of its job's schedule. A manual one has a fire time of its own, and decides none.
    `create or replace function @schema.run_is_planned_1(trigger text) returns boolean language sql immutable as $$
      select trigger <> 'manual'
    $$`,

    // What a run keeps of its attempts: the first and the last 20. On the first, leftOut says how many between them are
    // not kept.
    `create or replace function @schema.earlier_attempts_with_1(list jsonb, attempt jsonb) returns jsonb language sql immutable as $$
      select case
        when jsonb_typeof(list) is distinct from 'array' then jsonb_build_array(attempt)
        when jsonb_array_length(list) <= 20 then list || jsonb_build_array(attempt)
        else jsonb_build_array((list -> 0) || jsonb_build_object(
               'leftOut', coalesce((list -> 0 ->> 'leftOut')::integer, 0) + jsonb_array_length(list) - 20))
          || (select jsonb_agg(each.value order by each.position)
              from   jsonb_array_elements(list) with ordinality as each (value, position)
              where  each.position > jsonb_array_length(list) - 19)
          || jsonb_build_array(attempt)
      end
    $$`,

    // How many seconds the last attempt of a run that has ended took; 0 where none began, null while the run is open. A
    // difference of two instants may be out of an interval's range.
    `create or replace function @schema.run_took_1(status text, started_at timestamptz, finished_at timestamptz) returns float8
    language sql immutable as $$
      select case when status in ('done', 'dead', 'skipped', 'cancelled') then coalesce(
        (extract(epoch from finished_at at time zone 'UTC') - extract(epoch from started_at at time zone 'UTC'))::float8, 0) end
    $$`,

    // Finds the longest run of a backfill, and those that are open, without a look at the others.
    `create index if not exists job_runs_of_backfill on @schema.job_runs (backfill_id, @schema.run_took_1(status, started_at, finished_at))
    where backfill_id is not null`,

    // How many runs of a backfill are open.
    `create or replace function @schema.backfill_open_1(its_backfill uuid) returns table (open bigint) language sql stable as $$
      select count(*)
      from   @schema.job_runs run
      where  run.backfill_id = its_backfill
      and    @schema.run_took_1(run.status, run.started_at, run.finished_at) is null
    $$`,

    // No attempt is left to the run: those that were handed back do not count.
    `create or replace function @schema.run_is_used_up_1(attempt integer, releases integer, max_attempts integer) returns boolean
    language sql immutable as $$
      select attempt - releases >= max_attempts
    $$`,
  ],
  down: [
    `drop function if exists @schema.backfill_open_1`,
    `drop index if exists @schema.job_runs_of_backfill`,
    `drop function if exists @schema.run_took_1`,
    `drop function if exists @schema.earlier_attempts_with_1`,
    `drop function if exists @schema.run_is_used_up_1`,
    `drop function if exists @schema.run_is_planned_1`,
    `drop function if exists @schema.run_is_asked_for_1`,
    `drop function if exists @schema.run_is_under_way_1`,
    `drop function if exists @schema.run_is_expired_1`,
    `drop function if exists @schema.page_is_ours_1`,
    `drop function if exists @schema.run_is_ours_1`,
    `drop function if exists @schema.run_is_leased_1`,
    `drop function if exists @schema.run_waits_1`,
    `drop function if exists @schema.flag_is_off_1`,
    `drop function if exists @schema.job_is_held_1`,
    `drop function if exists @schema.job_is_paused_1`,
    `drop function if exists @schema.wake_1`,
    `drop function if exists @schema.receipt_lock_1`,
    `drop function if exists @schema.job_lock_all_1`,
    `drop function if exists @schema.job_lock_1`,
  ],
});
