import { migration } from './frozen.js';

/** Creates the transitions of a run. Each names the attempt that it belongs to, in the statement itself. */
export const createRunFunctions = migration('CreateRunFunctions1796000000010', {
  up: [
    // Which of its instance's claims has begun the attempt: of a claim whose answer was lost it tells what a later one
    // began.
    `alter table @schema.job_runs add column if not exists claim integer`,

    // A run whose pages are replayed waits like any other, and goes on with them.
    `create or replace function @schema.job_runs_refuse_move() returns trigger language plpgsql as $$
    begin
      if tg_op = 'INSERT' then
        raise exception 'A run may not begin as % (% of %)', new.status, new.job_name, new.fire_time
        using errcode = 'check_violation', constraint = 'job_runs_moves_are_known', table = 'job_runs';
      end if;
      if old.status || ' ' || new.status in (
          'queued running', 'queued fanned_out', 'failed running', 'orphaned running', 'running done', 'running fanned_out',
          'running failed', 'running dead', 'running queued', 'running orphaned', 'running cancelled',
          'fanned_out done', 'fanned_out dead', 'fanned_out cancelled', 'queued cancelled', 'failed cancelled',
          'orphaned cancelled', 'dead cancelled', 'dead queued', 'done queued',
          'skipped queued', 'cancelled queued', 'queued done', 'queued dead', 'queued skipped') then
        return new;
      end if;
      raise exception 'A run may not go from % to % (% of %)', old.status, new.status, new.job_name, new.fire_time
      using errcode = 'check_violation', constraint = 'job_runs_moves_are_known', table = 'job_runs';
    end $$`,

    // What is started first. Live occurrences and their retries, then what is caught up, then backfills.
    `create or replace function @schema.run_precedence_1(trigger text) returns integer language sql immutable as $$
      select case trigger when 'catch-up' then 1 when 'backfill' then 2 else 0 end
    $$`,

    // No other run of the job may go on beside this one. What a person asked for says so itself, everything else goes
    // by its job.
    // Where so many may run beside each other, a manual run waits for a place as they do: all of them empty at once may
    // never be.
    `create or replace function @schema.run_goes_alone_1(trigger text, beside boolean, overlap text, parallel integer) returns boolean
    language sql immutable as $$
      select case
        when trigger = 'manual' and overlap = 'allow' and parallel is not null then false
        when @schema.run_is_asked_for_1(trigger) then not beside
        else overlap <> 'allow' end
    $$`,

    // With overlap 'replace' the run gives way to a newer one: what runs is told to stop, what waits is cancelled.
    `create or replace function @schema.run_gives_way_1(status text, cancel_requested_at timestamptz, beside boolean, trigger text) returns boolean
    language sql immutable as $$
      select status in ('running', 'fanned_out', 'queued', 'failed', 'orphaned') and cancel_requested_at is null and not beside
         and not @schema.run_is_asked_for_1(trigger)
    $$`,

    // When an operator's hold on the job ends by itself: infinity for one that somebody has to end, null or past for
    // none.
    `create or replace function @schema.job_held_until_1(enabled boolean, paused_at timestamptz, paused_until timestamptz) returns timestamptz
    language sql immutable as $$
      select case when not enabled then 'infinity'::timestamptz
                  when paused_at is not null then coalesce(paused_until, 'infinity') end
    $$`,

    // The rules below read tables. They give a table of one row, and are stable, because PostgreSQL puts such a
    // function in the place of its call, so that it is planned with the statement that asks.

    // A waiting run of the job may start: the job is there, nobody holds it, and its flag, if it has one, is on.
    `create or replace function @schema.job_may_start_1(its_job text, its_flag text) returns table (may_start boolean)
    language sql stable as $$
      select not exists (
               select from @schema.job_schedule schedule
               where  schedule.name = its_job
               and   (schedule.removed_at is not null
                      or @schema.job_is_held_1(schedule.enabled, schedule.paused_at, schedule.paused_until)))
         and (its_flag is null or not @schema.flag_is_off_1(its_flag))
    $$`,

    // How many runs of a concurrency group are under way.
    `create or replace function @schema.group_running_1(its_group text) returns table (running bigint) language sql stable as $$
      select count(*)
      from   @schema.job_runs run
      where  run.concurrency_group = its_group
      and    @schema.run_is_under_way_1(run.status, run.lease_until)
    $$`,

    // The run's concurrency group, if any, has a place for it. The turn counts those that may want one.
    `create or replace function @schema.run_has_group_place_1(its_group text, its_limit integer, its_turn bigint) returns table (has_place boolean)
    language sql stable as $$
      select its_group is null or its_turn <= its_limit - (select running from @schema.group_running_1(its_group))
    $$`,

    // The run has a place beside the others of its job and its backfill. One that goes alone has it when nothing of the
    // job is under way, apart from what others may run beside. A backfill's run gives way: it has to be over before the
    // schedule needs its place. It may take as long as the longest of its backfill so far and of the job's last twenty
    // that are done, among its newest fifty; a fifth more, and a little for the start. The turns count those that may
    // want the same place.
    `create or replace function @schema.run_has_place_1(
      its_job text, its_trigger text, is_beside boolean, is_alone boolean, its_overlap text, its_parallel integer, its_turn bigint,
      its_backfill uuid, its_backfill_turn bigint, needed_at timestamptz)
    returns table (has_place boolean)
    language sql stable as $$
      select (not is_alone or its_turn = 1 and not exists (
               select from @schema.job_runs other
               where  other.job_name = its_job
               and    @schema.run_is_under_way_1(other.status, other.lease_until)
               and    not other.beside))
         and (is_alone or its_overlap <> 'allow' or its_parallel is null or its_turn <= its_parallel - (
               select count(*)
               from   @schema.job_runs other
               where  other.job_name = its_job
               and    @schema.run_is_leased_1(other.status, other.lease_until)))
         and (its_backfill is null or its_backfill_turn <=
               coalesce((select max_concurrent from @schema.job_backfills backfill where backfill.id = its_backfill), 1) - (
                 select count(*)
                 from   @schema.job_runs other
                 where  other.job_name = its_job
                 and    @schema.run_is_under_way_1(other.status, other.lease_until)
                 and    other.backfill_id = its_backfill))
         and case when its_trigger <> 'backfill' or is_beside and needed_at is null then true else (
               select coalesce(needed_at > clock_timestamp() + estimate.longest, true)
                  and (is_beside or not exists (
                         select from @schema.job_runs live
                         where  live.job_name = its_job
                         and    live.trigger <> 'backfill'
                         and    @schema.run_waits_1(live.status)
                         and    live.next_attempt_at <= clock_timestamp() + estimate.longest))
               from  (select least(greatest(
                               (select @schema.run_took_1(own.status, own.started_at, own.finished_at)
                                from   @schema.job_runs own
                                where  own.backfill_id = its_backfill
                                and    @schema.run_took_1(own.status, own.started_at, own.finished_at) is not null
                                order  by @schema.run_took_1(own.status, own.started_at, own.finished_at) desc
                                limit  1),
                               (select max(@schema.run_took_1(done.status, done.started_at, done.finished_at))
                                from  (select newest.status, newest.started_at, newest.finished_at
                                       from  (select recent.job_name, recent.fire_time, recent.status, recent.started_at, recent.finished_at
                                              -- In words of which the planner expects a third of all: with an equation, and where nobody has
                                              -- analyzed the table, it would read all runs of the job and sort them.
                                              from   @schema.job_runs recent
                                              where (recent.job_name, recent.fire_time) <= (its_job, 'infinity')
                                              order  by recent.job_name desc, recent.fire_time desc
                                              limit  50) newest
                                       where  newest.job_name = its_job
                                       and    newest.status = 'done'
                                       order  by newest.fire_time desc
                                       limit  20) done),
                               0), 31536000) * interval '1.2 seconds' + interval '100 milliseconds' as longest) estimate) end
    $$`,

    // What the row keeps of the attempt before, when the next one begins.
    `create or replace function @schema.earlier_attempts_of_1(
      list jsonb, attempt integer, claimed_by text, started_at timestamptz, finished_at timestamptz, status text, error jsonb, reason text)
    returns jsonb language sql stable as $$
      select case when claimed_by is null then list else @schema.earlier_attempts_with_1(list, jsonb_build_object(
        'attempt', attempt,
        'claimedBy', claimed_by,
        'startedAt', started_at,
        'finishedAt', finished_at,
        'status', status,
        'error', error,
        'reason', reason)) end
    $$`,

    // Which of these occurrences have a row. A look, without a lock.
    `create or replace function @schema.job_run_decided_1(jobs text[], fire_times timestamptz[]) returns table (job_name text, fire_time timestamptz)
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    #variable_conflict use_column
    begin
      return query
      select run.job_name, run.fire_time
      from   unnest(jobs, fire_times) as given (job_name, fire_time)
      join   job_runs run on run.job_name = given.job_name and run.fire_time = given.fire_time;
    end $$`,

    // Turns occurrences that are due into runs of one instance, and gives each a verdict. Losers write nothing.
    //
    // A rule about other runs of the job can't be judged in the statement that inserts: under read committed it sees
    // the rows from before it began, so that two replicas with two fire times of one job would each see none. Therefore
    // the locks of the jobs and their groups come first, and then a look of its own. What is due while a run that a
    // person asked for is in its way is queued: it is neither skipped nor, however long that takes, missed.
    `create or replace function @schema.job_run_claim_1(candidates jsonb, instance text, its_claim integer)
    returns table (job_name text, fire_time timestamptz, verdict text, reason text, attempt integer, releases integer, trigger text,
                   lease_until timestamptz, now timestamptz)
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    #variable_conflict use_column
    declare
      locks text[];
      first_at timestamptz;
      last_at timestamptz;
      replacing text[];
      queueing text[];
      groups text[];
      queued jsonb := '{}';
      in_groups jsonb := '{}';
      -- Runs that give way to a newer one, and jobs of which somebody holds such a run.
      older_jobs text[];
      older_times timestamptz[];
      held_jobs text[] := '{}';
      told text[];
    begin
      select array_agg("jobName") || coalesce(array_agg('concurrency group ' || "group") filter (where "group" is not null), '{}'),
             min("fireTime"), max("fireTime"),
             array_agg("jobName") filter (where overlap = 'replace'),
             array_agg("jobName") filter (where overlap = 'queue'),
             array_agg(distinct "group") filter (where "group" is not null)
      into   locks, first_at, last_at, replacing, queueing, groups
      from   jsonb_to_recordset(candidates) as given ("jobName" text, "fireTime" timestamptz, overlap text, "group" text);
      perform job_lock_all_1(locks);

      if queueing is not null then
        select coalesce(jsonb_object_agg(job_name, waiting), '{}')
        into   queued
        from  (select other.job_name, count(*) as waiting
               from   job_runs other
               where  other.job_name = any (queueing)
               and    other.status = 'queued'
               and    other.trigger in ('schedule', 'external')
               group  by other.job_name) counted;
      end if;
      if groups is not null then
        select coalesce(jsonb_object_agg(counted.name, counted.running), '{}')
        into   in_groups
        from  (select name, running from unnest(groups) as name cross join lateral group_running_1(name)) counted;
      end if;
      if replacing is not null then
        with older as materialized (
          select old.job_name, old.fire_time
          from   job_runs old
          where  old.job_name = any (replacing)
          and    old.fire_time < last_at
          and    old.status in ('running', 'fanned_out')
          and    run_gives_way_1(old.status, old.cancel_requested_at, old.beside, old.trigger)
          union  all
          select old.job_name, old.fire_time
          from   job_runs old
          where  old.job_name = any (replacing)
          and    old.fire_time < last_at
          and    old.status in ('queued', 'failed', 'orphaned')
          and    run_gives_way_1(old.status, old.cancel_requested_at, old.beside, old.trigger)
        ),
        free as materialized (
          select old.job_name, old.fire_time
          from   older
          join   job_runs old on old.job_name = older.job_name and old.fire_time = older.fire_time
          where  run_gives_way_1(old.status, old.cancel_requested_at, old.beside, old.trigger)
          for    no key update of old skip locked
        )
        select array_agg(older.job_name) filter (where free.job_name is not null),
               array_agg(older.fire_time) filter (where free.job_name is not null),
               coalesce(array_agg(older.job_name) filter (where free.job_name is null), '{}')
        into   older_jobs, older_times, held_jobs
        from   older
        left   join free on free.job_name = older.job_name and free.fire_time = older.fire_time;
      end if;

      return query
      with clock as materialized (
        select clock_timestamp() as now
      ),
      due as materialized (
        select "jobName" as job_name, "fireTime" as fire_time, coalesce("startsAt", "fireTime") as starts_at, cron, "timeZone" as time_zone,
               calendar, overlap, parallel, "queueLimit" as queue_limit, "group" as concurrency_group, "groupLimit" as group_limit,
               "leaseMs" as lease_ms, coalesce("byHand", false) as by_hand, flag, off, delivery is not null as delivered,
               delivery ->> 'by' as delivered_by, nullif(delivery -> 'data', 'null') as delivered_data
        from   jsonb_to_recordset(candidates) as given (
                 "jobName" text, "fireTime" timestamptz, "startsAt" timestamptz, cron text, "timeZone" text, calendar text, overlap text,
                 parallel integer, "queueLimit" integer, "group" text, "groupLimit" integer, "leaseMs" integer, "byHand" boolean,
                 flag text, off text, delivery jsonb)
      ),
      -- What is under way, once for all candidates. 'allow' counts what runs, everything else what others may not run beside.
      busy as materialized (
        select other.job_name,
               count(*) filter (where other.status = 'running') as running,
               count(*) filter (where not other.beside) as running_alone,
               array_agg(other.started_at order by other.started_at)
                 filter (where other.status = 'running' and not run_is_asked_for_1(other.trigger)) as since,
               array_agg(other.started_at order by other.started_at)
                 filter (where not other.beside and not run_is_asked_for_1(other.trigger)) as since_alone,
               bool_or(run_is_asked_for_1(other.trigger)) filter (where other.status = 'running') as asked_for,
               bool_or(run_is_asked_for_1(other.trigger)) filter (where not other.beside) as asked_for_alone
        from   job_runs other
        where  other.job_name = any (array(select job_name from due where parallel is not null))
        and    run_is_under_way_1(other.status, other.lease_until)
        group  by other.job_name
      ),
      candidate as materialized (
        select due.*, clock.now,
               -- One look at a key for each: whatever the planner knows of the table, it reads nothing else of it.
              (select true
               from   job_runs run
               where  run.job_name = due.job_name
               and    run.fire_time = due.fire_time
               and    run.fire_time between first_at and last_at) is not null as taken,
               schedule.name is null
                 or schedule.cron <> due.cron or schedule.time_zone <> due.time_zone or schedule.calendar is distinct from due.calendar
                 or schedule.yields_to is not null or schedule.removed_at is not null as outdated,
               coalesce(due.fire_time <= schedule.decided_until and not due.by_hand, false) as decided,
               due.starts_at > clock.now as early,
               case
                 when not schedule.enabled then 'disabled'
                 when job_is_held_1(schedule.enabled, schedule.paused_at, schedule.paused_until)
                   or due.fire_time >= schedule.paused_at and due.fire_time < schedule.paused_until then 'paused'
                 when due.off is not null then due.off
                 when due.flag is not null and flag_is_off_1(due.flag) then 'flag off: ' || due.flag
                 else (select hold ->> 'reason'
                       from   jsonb_array_elements(schedule.earlier_holds) hold
                       where  due.fire_time >= coalesce((hold ->> 'since')::timestamptz, '-infinity')
                       and    due.fire_time < (hold ->> 'until')::timestamptz
                       limit  1)
               end as held,
               coalesce(case when due.overlap = 'allow' then busy.running else busy.running_alone end, 0) as running,
              (case when due.overlap = 'allow' then busy.since else busy.since_alone end)[due.parallel] as busy_since,
               coalesce(case when due.overlap = 'allow' then busy.asked_for else busy.asked_for_alone end, false) as asked_for,
               case when due.overlap = 'queue' then coalesce((queued ->> due.job_name)::integer, 0) else 0 end as queued
        from   due
        cross  join clock
        left   join busy on busy.job_name = due.job_name and due.parallel is not null
        left   join job_schedule schedule on schedule.name = due.job_name
      ),
      placed as (
        select candidate.*,
               row_number() over (partition by job_name, overlap, open order by fire_time) as turn,
               count(*) over (partition by job_name, overlap, open) as turns,
               busy_since is not null or asked_for or candidate.queued > 0 as in_line
        from  (select candidate.*, not (taken or decided or early or outdated) and held is null as open
               from   candidate) candidate
      ),
      judged as (
        select placed.*,
               case
                 when taken then 'taken'
                 when outdated then 'outdated'
                 -- Covered by a gap, or of a time in which another schedule held: whoever asks has an old timeline.
                 when decided then 'taken'
                 when early and not delivered then 'early'
                 when held is not null then 'skipped'
                 when early then 'queued'
                 when overlap = 'queue' and (in_line or turn > 1) then
                   case when placed.queued + turn - case when in_line then 0 else 1 end <= queue_limit then 'queued' else 'skipped' end
                 when overlap = 'replace' and turn < turns then 'skipped'
                 -- Somebody's transaction holds what has to be told to stop: to be tried again.
                 when overlap = 'replace' and job_name = any (held_jobs) then 'waiting'
                 when overlap = 'replace' and in_line then 'queued'
                 when overlap <> 'replace' and busy_since <= starts_at then 'skipped'
                 when busy_since is not null then 'waiting'
                 when asked_for and turn > parallel - running then 'queued'
                 when overlap <> 'replace' and turn > parallel - running then 'waiting'
                 else 'claimed'
               end as verdict,
               coalesce(held, case
                 when overlap = 'queue' then 'overlap: the queue is full'
                 when overlap = 'replace' then 'overlap: replaced by a newer one'
                 when busy_since <= starts_at then 'overlap' end) as reason
        from   placed
      ),
      -- Whether those that could start have a place of their concurrency group.
      grouped as (
        select judged.*,
               row_number() over (partition by concurrency_group, verdict order by starts_at, job_name, fire_time) as group_turn
        from   judged
      ),
      placeless as (
        select grouped.*,
               concurrency_group is not null and verdict = 'claimed'
                 and group_turn > group_limit - coalesce((in_groups ->> concurrency_group)::integer, 0) as placeless
        from   grouped
      ),
      admitted as materialized (
        select placeless.*,
               case
                 -- What is delivered may have nobody here to run it: whoever has room starts it.
                 when delivered and verdict in ('claimed', 'waiting') then 'queued'
                 when placeless and overlap = 'queue' then 'queued'
                 when placeless then 'waiting'
                 -- The first of its line waits in it, too.
                 when overlap = 'queue' and verdict = 'queued' and turn > queue_limit and exists (
                        select from placeless first
                        where  first.job_name = placeless.job_name
                        and    first.overlap = placeless.overlap
                        and    first.placeless) then 'skipped'
                 else verdict
               end as admission
        from   placeless
      ),
      inserted as (
        insert into job_runs
               (job_name, fire_time, status, trigger, reason, claimed_by, claim, attempt, started_at, lease_until, finished_at,
                next_attempt_at, concurrency_group, requested_by, data)
        select job_name, fire_time,
               case admission when 'claimed' then 'running' else admission end,
               case when delivered then 'external' else 'schedule' end,
               case
                 when admission = 'skipped' then reason
                 when admission = 'queued' and delivered and (early or verdict <> 'queued') then 'waits for its start'
                 when admission = 'queued' then 'waits for a run before it'
               end,
               case when admission = 'claimed' then instance end,
               case when admission = 'claimed' then its_claim end,
               case when admission = 'claimed' then 1 else 0 end,
               case when admission = 'claimed' then now end,
               case when admission = 'claimed' then now + lease_ms * interval '1 millisecond' end,
               case when admission = 'skipped' then now end,
               case when admission = 'queued' then greatest(now, starts_at) end,
               case when admission = 'claimed' then concurrency_group end,
               delivered_by, delivered_data
        from   admitted
        where  admission in ('claimed', 'skipped', 'queued')
        order  by job_name, fire_time
        on     conflict (job_name, fire_time) do nothing
        returning job_name, fire_time, attempt, releases, trigger, lease_until
      )
      select admitted.job_name, admitted.fire_time,
             case
               when admitted.admission in ('claimed', 'skipped', 'queued') and inserted.job_name is null then 'taken'
               else admitted.admission
             end,
             admitted.reason, inserted.attempt, inserted.releases, inserted.trigger, inserted.lease_until, admitted.now
      from   admitted
      left   join inserted on inserted.job_name = admitted.job_name and inserted.fire_time = admitted.fire_time
      order  by admitted.job_name, admitted.fire_time;

      -- What waits of an earlier occurrence gives way to the newest one; what runs is told to stop, and keeps its lease until it has.
      if older_jobs is not null then
        with newest as (
          select run.job_name, max(run.fire_time) as fire_time
          from   jsonb_to_recordset(candidates) as given ("jobName" text, "fireTime" timestamptz, overlap text)
          join   job_runs run on run.job_name = given."jobName" and run.fire_time = given."fireTime"
          where  given.overlap = 'replace'
          and    run.fire_time between first_at and last_at
          and    run.status in ('running', 'queued')
          -- Written by this transaction; instants would tell that only while the server's clock is not set back. In a block with an
          -- exception handler the insert would have an id of its own.
          and    run.xmin = pg_current_xact_id()::xid
          group  by run.job_name
        ),
        replaced as (
          update job_runs old
          set    status = case when old.status in ('running', 'fanned_out') then old.status else 'cancelled' end,
                 reason = case when old.status in ('running', 'fanned_out') then old.reason else 'replaced by a newer one' end,
                 finished_at = case when old.status in ('running', 'fanned_out') then old.finished_at else clock_timestamp() end,
                 next_attempt_at = null,
                 cancel_requested_at = case when old.status in ('running', 'fanned_out') then clock_timestamp() end,
                 cancel_reason = case when old.status in ('running', 'fanned_out') then 'replaced by a newer one' end
          from   unnest(older_jobs, older_times) as older (job_name, fire_time)
          join   newest on newest.job_name = older.job_name and newest.fire_time > older.fire_time
          where  old.job_name = older.job_name
          and    old.fire_time = older.fire_time
          returning old.status, old.claimed_by
        )
        select array_agg(distinct replaced.claimed_by) filter (where replaced.status = 'running') into told from replaced;
        perform wake_1('told ' || owner) from unnest(told) as owner;
      end if;
    end $$`,

    // Starts the next attempt of each candidate that still waits as it was seen, and keeps what the last attempt came
    // to. At most one of a job that forbids overlap, and none beside a running one; of a backfill no more than it runs
    // at a time, and none that would keep the schedule waiting. A row that somebody holds is passed over.
    `create or replace function @schema.job_run_start_1(candidates jsonb, instance text, its_claim integer)
    returns table (job_name text, fire_time timestamptz, attempt integer, releases integer, trigger text, beside boolean,
                   lease_until timestamptz, pages integer, has_data boolean, data jsonb, has_checkpoint boolean, checkpoint jsonb, now timestamptz)
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    #variable_conflict use_column
    declare
      locks text[];
    begin
      select array_agg("jobName") || coalesce(array_agg('concurrency group ' || "group") filter (where "group" is not null), '{}')
      into   locks
      from   jsonb_to_recordset(candidates) as given ("jobName" text, "group" text);
      perform job_lock_all_1(locks);

      return query
      with waiting as (
        select "jobName" as job_name, "fireTime" as fire_time, attempt, overlap, parallel, "group" as concurrency_group,
               "groupLimit" as group_limit, "leaseMs" as lease_ms, "placeNeededAt" as place_needed_at, flag, off
        from   jsonb_to_recordset(candidates) as given (
                 "jobName" text, "fireTime" timestamptz, attempt integer, overlap text, parallel integer, "group" text,
                 "groupLimit" integer, "leaseMs" integer, "placeNeededAt" timestamptz, flag text, off text)
      ),
      ready as (
        select waiting.*, seen.trigger, seen.beside, seen.backfill_id, kind.alone, kind.precedence,
               row_number() over (partition by waiting.job_name, kind.alone order by kind.precedence, waiting.fire_time) as turn,
               row_number() over (partition by seen.backfill_id order by waiting.fire_time) as backfill_turn
        from   waiting
        join   job_runs seen on seen.job_name = waiting.job_name and seen.fire_time = waiting.fire_time
        cross  join lateral (
                 select run_precedence_1(seen.trigger) as precedence,
                        run_goes_alone_1(seen.trigger, seen.beside, waiting.overlap, waiting.parallel) as alone) kind
        where  seen.attempt = waiting.attempt
        and    run_waits_1(seen.status)
      ),
      candidate as materialized (
        select ready.*,
               row_number() over (partition by ready.concurrency_group order by ready.precedence, ready.fire_time) as group_turn
        from   ready
        cross  join lateral run_has_place_1(ready.job_name, ready.trigger, ready.beside, ready.alone, ready.overlap, ready.parallel,
                 ready.turn, ready.backfill_id, ready.backfill_turn, ready.place_needed_at) place
        cross  join lateral job_may_start_1(ready.job_name, ready.flag) job
        where  place.has_place
        and    job.may_start
        and    ready.off is null
      ),
      free as materialized (
        select run.job_name, run.fire_time, candidate.concurrency_group, candidate.lease_ms
        from   candidate
        cross  join lateral run_has_group_place_1(candidate.concurrency_group, candidate.group_limit, candidate.group_turn) in_group
        join   job_runs run on run.job_name = candidate.job_name and run.fire_time = candidate.fire_time
        where  in_group.has_place
        and    run.attempt = candidate.attempt
        and    run_waits_1(run.status)
        and    run.next_attempt_at <= clock_timestamp()
        and    run.fire_time <= clock_timestamp()
        for    no key update of run skip locked
      )
      update job_runs run
      -- One that waits for its pages alone is theirs again: its tick has done its work.
      set    status = case when run.pages is null then 'running' else 'fanned_out' end,
             reason = null,
             attempt = run.attempt + 1,
             claimed_by = instance,
             claim = its_claim,
             concurrency_group = free.concurrency_group,
             started_at = clock_timestamp(),
             finished_at = null,
             lease_until = case when run.pages is null then clock_timestamp() + free.lease_ms * interval '1 millisecond' end,
             next_attempt_at = null,
             cancel_requested_at = null,
             cancel_reason = null,
             error = null,
             earlier_attempts = earlier_attempts_of_1(
               run.earlier_attempts, run.attempt, run.claimed_by, run.started_at, run.finished_at, run.status, run.error, run.reason)
      from   free
      where  run.job_name = free.job_name
      and    run.fire_time = free.fire_time
      returning run.job_name, run.fire_time, run.attempt, run.releases, run.trigger, run.beside, run.lease_until, run.pages,
                -- Larger ones are read afterwards: a process that stands still would hold the locks of the jobs until it has read its answer.
                run.data is not null, case when octet_length(run.data::text) <= 2048 then jsonb_build_array(run.data) end,
                run.checkpoint is not null, case when octet_length(run.checkpoint::text) <= 2048 then jsonb_build_array(run.checkpoint) end,
                clock_timestamp();
    end $$`,

    // Ends attempts, each behind its own fence; one without a status has completed. One that was to be cancelled, and
    // has ended otherwise before it heard of that, is cancelled: it would start again. A row that somebody holds is
    // passed over, so that it does not hold up the others, unless the caller is patient. What is handed back wakes the
    // others up.
    `create or replace function @schema.job_run_end_1(ends jsonb, instance text, patient boolean)
    returns table (place integer, status text, reason text)
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    #variable_conflict use_column
    begin
      if patient then
        perform
        from   jsonb_to_recordset(ends) as given ("jobName" text, "fireTime" timestamptz)
        join   job_runs run on run.job_name = given."jobName" and run.fire_time = given."fireTime"
        for    no key update of run;
      end if;

      return query
      with given as materialized (
        select place, "jobName" as job_name, "fireTime" as fire_time, attempt, coalesce("instanceId", instance) as claimed_by,
               coalesce(status, 'done') as status, reason, error, "retryInMs" as retry_in_ms, coalesce(releases, 0) as releases
        from   jsonb_to_recordset(ends) as given (
                 place integer, "jobName" text, "fireTime" timestamptz, attempt integer, "instanceId" text, status text, reason text,
                 error jsonb, "retryInMs" double precision, releases integer)
      ),
      free as materialized (
        select given.*
        from   job_runs run
        join   given on given.job_name = run.job_name and given.fire_time = run.fire_time
        where  run_is_ours_1(given.attempt, given.claimed_by, run.attempt, run.claimed_by, run.status, run.lease_until)
        for    no key update of run skip locked
      )
      update job_runs run
      set    status = case when free.status = 'done' or run.cancel_requested_at is null then free.status else 'cancelled' end,
             reason = case when free.status = 'done' then run.reason
                           when run.cancel_requested_at is null then free.reason
                           else coalesce(run.cancel_reason, free.reason) end,
             error = case when free.status = 'done' then run.error else free.error end,
             finished_at = clock_timestamp(),
             next_attempt_at = case when free.status <> 'done' and run.cancel_requested_at is null
                                    then clock_timestamp() + free.retry_in_ms * interval '1 millisecond' end,
             releases = least(run.releases + free.releases, run.attempt)
      from   free
      where  run.job_name = free.job_name
      and    run.fire_time = free.fire_time
      and    run_is_ours_1(free.attempt, free.claimed_by, run.attempt, run.claimed_by, run.status, run.lease_until)
      returning free.place, run.status, run.reason;

      if jsonb_path_exists(ends, '$[*] ? (@.status == "queued")') then perform wake_1('runs'); end if;
    end $$`,

    // Hands back attempts that were claimed for an instance which never heard of it: they have not begun, so they don't
    // count. What somebody else has made of them stays, and so does what a later claim of the same instance has begun.
    `create or replace function @schema.job_run_hand_back_1(
      jobs text[], fire_times timestamptz[], attempts integer[], claims integer[], instance text)
    returns table (job_name text, fire_time timestamptz, attempt integer, claim integer)
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    #variable_conflict use_column
    begin
      return query
      with unheard as materialized (
        select run.job_name, run.fire_time
        from   unnest(jobs, fire_times, attempts, claims) as given (job_name, fire_time, attempt, claim)
        join   job_runs run on run.job_name = given.job_name and run.fire_time = given.fire_time
        where  run.status = 'running'
        and    run.attempt = given.attempt
        and    run.claimed_by = instance
        and    run.claim = given.claim
        for    no key update of run skip locked
      )
      update job_runs run
      set    status = case when run.cancel_requested_at is null then 'queued' else 'cancelled' end,
             reason = case when run.cancel_requested_at is null then 'handed back: the answer to its claim was lost' else run.cancel_reason end,
             finished_at = clock_timestamp(),
             next_attempt_at = case when run.cancel_requested_at is null then clock_timestamp() end,
             releases = least(run.releases + 1, run.attempt)
      from   unheard
      where  run.job_name = unheard.job_name
      and    run.fire_time = unheard.fire_time
      returning run.job_name, run.fire_time, run.attempt, run.claim;

      if found then perform wake_1('runs'); end if;
    end $$`,

    // Extends the leases of one instance's runs. A lease that ran out is never revived, one that another attempt took
    // is not touched, and a row that somebody holds is passed over, so that it does not hold up the others: it is ours,
    // and has no lease_until here.
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
        where  run_is_ours_1(held.attempt, held.claimed_by, run.attempt, run.claimed_by, run.status, run.lease_until)
      ),
      free as (
        select run.job_name, run.fire_time, held.id, held.attempt, held.claimed_by, held.lease_ms
        from   job_runs run
        join   held on held.job_name = run.job_name and held.fire_time = run.fire_time
        where  run_is_ours_1(held.attempt, held.claimed_by, run.attempt, run.claimed_by, run.status, run.lease_until)
        for    no key update of run skip locked
      ),
      renewed as (
        update job_runs run
        set    lease_until = clock_timestamp() + free.lease_ms * interval '1 millisecond'
        from   free
        where  run.job_name = free.job_name
        and    run.fire_time = free.fire_time
        and    run_is_ours_1(free.attempt, free.claimed_by, run.attempt, run.claimed_by, run.status, run.lease_until)
        returning free.id, run.lease_until
      )
      select ours.id, renewed.lease_until
      from   ours
      left   join renewed on renewed.id = ours.id;
    end $$`,

    // This role may end sessions of that one, as pg_terminate_backend judges it: it would fail where it may not, and
    // with it the pass that asked.
    `create or replace function @schema.may_end_sessions_of_1(role oid) returns boolean language sql stable as $$
      select (pg_has_role(role, 'usage') or pg_has_role('pg_signal_backend', 'usage'))
         and (not exists (select from pg_roles where oid = role and rolsuper)
              or exists (select from pg_roles where rolname = current_user and rolsuper))
    $$`,

    // Whoever knows these jobs reaps the run whose lease ran out: one of them, or of a job that was removed. Whoever
    // looks for what nobody knows reaps what is named, and what nobody has reaped for a minute.
    `create or replace function @schema.run_is_reaped_by_1(
      its_job text, its_lease_until timestamptz, removed_at timestamptz, jobs text[], unknown text[]) returns boolean
    language sql volatile as $$
      select its_job = any (jobs)
          or removed_at is not null
          or its_job = any (unknown)
          or unknown is not null and its_lease_until <= clock_timestamp() - interval '1 minute'
    $$`,

    // Makes runs whose lease ran out claimable again at once, dead when their attempts are used up or their job was
    // removed, or cancelled; and ends the transactions in which these attempts still hold a receipt: what they would
    // write is refused anyway. Of the jobs that are named, and of removed ones, which are anybody's. Given an array of
    // jobs that nobody knows (it may be empty), of those, too, and of whatever was not reaped for a minute: a former
    // name that no code remembers, a job without a row.
    //
    // Status, attempt and lease are judged on the locked row: a completion or a heartbeat that came first wins. A row
    // that somebody holds is passed over, and its transaction is ended all the same. One that can't be written is given
    // back with the problem, as it is, and the others go on; the caller lets it rest, and names it among those that
    // take no places for now.
    `create or replace function @schema.job_run_reap_1(
      jobs text[], max_attempts integer[], unknown text[], most integer, resting_jobs text[] default '{}', resting_times timestamptz[] default '{}')
    returns table (job_name text, fire_time timestamptz, status text, attempt integer, claimed_by text, reason text, overdue_ms float8,
                   problem text)
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    #variable_conflict use_column
    declare
      expired record;
      receipts_of bigint[] := '{}';
    begin
      for expired in
        select run.job_name, run.fire_time, run.attempt, run.cancel_requested_at is not null as is_cancelled,
               schedule.removed_at is not null as is_removed, known.job_name is not null as is_known,
               coalesce(known.max_attempts::text, schedule.policies ->> 'maxAttempts') as max_attempts
        from   job_runs run
        left   join unnest(jobs, max_attempts) as known (job_name, max_attempts) on known.job_name = run.job_name
        left   join job_schedule schedule on schedule.name = run.job_name
        where  run_is_expired_1(run.status, run.lease_until)
        and    run_is_reaped_by_1(run.job_name, run.lease_until, schedule.removed_at, jobs, unknown)
        and   (run.job_name, run.fire_time) not in (select * from unnest(resting_jobs, resting_times))
        order  by run.job_name, run.fire_time
        limit  most
        for    update of run skip locked
      loop
        receipts_of := receipts_of || receipt_lock_1(expired.job_name, expired.fire_time, expired.attempt, null);
        begin
          return query
          update job_runs run
          set    status = case
                   when expired.is_cancelled then 'cancelled'
                   when expired.is_removed or run_is_used_up_1(run.attempt, run.releases, expired.max_attempts::integer) then 'dead'
                   else 'orphaned' end,
                 reason = case when expired.is_cancelled then run.cancel_reason || '; ' else '' end
                   || case when run.reason is null or unknown is not null then 'the lease of ' || run.claimed_by || ' ran out' else run.reason end
                   || case when expired.is_removed then ', and its job was removed'
                           when not expired.is_known then ', and no live instance knows the job' else '' end,
                 error = jsonb_build_object(
                   'name', 'LeaseExpired',
                   'message', case
                     when not expired.is_known and not expired.is_removed then
                       'The lease of ' || run.claimed_by || ' ran out, and no live instance knows the job.'
                     when run.reason is null then
                       'The lease of ' || run.claimed_by || ' ran out: its process died, was frozen, or lost the database, or it took longer than its maxRunTime.'
                     else 'The liveness lock of ' || run.claimed_by || ' was gone: its process died, stood still, or lost the database.' end,
                   'stack', null),
                 finished_at = clock_timestamp(),
                 next_attempt_at = case
                   when not expired.is_cancelled and not expired.is_removed
                    and not coalesce(run_is_used_up_1(run.attempt, run.releases, expired.max_attempts::integer), false)
                   then clock_timestamp() end
          where  run.job_name = expired.job_name
          and    run.fire_time = expired.fire_time
          returning run.job_name, run.fire_time, run.status, run.attempt, run.claimed_by, run.reason,
                    extract(epoch from clock_timestamp() - run.lease_until)::float8 * 1000, null::text;
        exception when others then
          return query select expired.job_name, expired.fire_time, 'running', expired.attempt, null, null, null::float8, sqlerrm;
        end;
      end loop;

      -- Whose row is held keeps its attempt for now; its transaction does not.
      receipts_of := receipts_of || array(
        select receipt_lock_1(run.job_name, run.fire_time, run.attempt, null)
        from   job_runs run
        left   join job_schedule schedule on schedule.name = run.job_name
        where  run_is_expired_1(run.status, run.lease_until)
        and    run_is_reaped_by_1(run.job_name, run.lease_until, schedule.removed_at, jobs, unknown));
      perform pg_terminate_backend(held.pid)
      from   pg_locks held
      join   pg_stat_activity backend on backend.pid = held.pid
      where  held.locktype = 'advisory'
      and    held.objsubid = 1
      and    held.granted
      and    held.database = (select oid from pg_database where datname = current_database())
      and   (held.classid::bigint << 32 | held.objid::bigint) = any (receipts_of)
      and    may_end_sessions_of_1(backend.usesysid);
    end $$`,

    // Ends what waits of jobs that were removed: no attempt follows, whatever wrote the row meanwhile. One that can't be
    // written is given back with the problem, as when it is reaped.
    `create or replace function @schema.job_run_cancel_removed_1(
      most integer, resting_jobs text[] default '{}', resting_times timestamptz[] default '{}')
    returns table (job_name text, fire_time timestamptz, attempt integer, reason text, problem text)
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    #variable_conflict use_column
    declare
      waiting record;
    begin
      for waiting in
        select run.job_name, run.fire_time, run.attempt
        from   job_runs run
        where  run.status in ('queued', 'failed', 'orphaned')
        and    run.job_name in (select name from job_schedule where removed_at is not null)
        and   (run.job_name, run.fire_time) not in (select * from unnest(resting_jobs, resting_times))
        order  by run.job_name, run.fire_time
        limit  most
        for    update of run skip locked
      loop
        begin
          return query
          update job_runs run
          set    status = 'cancelled',
                 reason = 'its job was removed',
                 finished_at = clock_timestamp(),
                 next_attempt_at = null
          where  run.job_name = waiting.job_name
          and    run.fire_time = waiting.fire_time
          returning run.job_name, run.fire_time, run.attempt, run.reason, null::text;
        exception when others then
          return query select waiting.job_name, waiting.fire_time, waiting.attempt, null, sqlerrm;
        end;
      end loop;
    end $$`,

    // When the reaper has something to do: the earliest lease that ends, the earliest attempt that is due, whether
    // anything of a removed job waits, and whether a lease has run out of a job that is not among these. Leases of runs
    // that rest don't count.
    `create or replace function @schema.job_run_outlook_1(
      jobs text[], resting_jobs text[] default '{}', resting_times timestamptz[] default '{}')
    returns table (now timestamptz, next_expiry timestamptz, next_attempt timestamptz, removed_wait boolean, strays boolean)
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    declare
      removed text[] := array(select name from job_schedule where removed_at is not null);
    begin
      return query
      with known as materialized (
        select unnest(jobs) as name
      )
      select clock_timestamp(),
            (select min(run.lease_until)
             from   job_runs run
             where  run.status = 'running'
             and   (run.job_name in (select name from known) or run.job_name = any (removed))
             and   (run.job_name, run.fire_time) not in (select * from unnest(resting_jobs, resting_times))),
            (select nullif(min(greatest(run.next_attempt_at, run.fire_time, job_held_until_1(schedule.enabled, schedule.paused_at, schedule.paused_until))), 'infinity')
             from   job_runs run
             left   join job_schedule schedule on schedule.name = run.job_name
             where  run.status in ('queued', 'failed', 'orphaned')
             and    run.job_name in (select name from known)
             and    schedule.removed_at is null
             and   (schedule.policies ->> 'flag' is null or not flag_is_off_1(schedule.policies ->> 'flag'))),
             exists (
               select from job_runs run
               where  run.status in ('queued', 'failed', 'orphaned')
               and    run.job_name = any (removed)),
             exists (
               select from job_runs run
               where  run_is_expired_1(run.status, run.lease_until)
               and    run.job_name not in (select name from known)
               and    run.job_name <> all (removed));
    end $$`,

    // Runs that could start now: their attempt is due, their job is not held, and where overlap is forbidden it is
    // their turn and nothing of the job runs. Live ones first, then what is caught up, then backfills; of those, the
    // longest waiting. The places of a concurrency group go to whoever has waited longest. What can't start is left
    // out, or a long backlog of one job would take the places of all others. A look only: what starts them judges
    // again, by the same rules.
    `create or replace function @schema.job_run_waiting_1(jobs jsonb, most integer, slot_needed_at timestamptz)
    returns table (job_name text, fire_time timestamptz, attempt integer, trigger text, beside boolean, since timestamptz)
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    #variable_conflict use_column
    begin
      return query
      with known as materialized (
        select known.*
        from   jsonb_to_recordset(jobs) as known (
                 name text, overlap text, "nextDueAt" timestamptz, flag text, parallel integer, "group" text, "groupLimit" integer,
                 "backlogStartedAt" timestamptz)
        cross  join lateral job_may_start_1(known.name, known.flag) job
        where  job.may_start
      ),
      due as (
        select run.job_name, run.fire_time, run.attempt, run.next_attempt_at, run.trigger, run.beside, run.backfill_id,
               known.overlap, known.parallel, known."group" as concurrency_group, known."groupLimit" as group_limit,
               known."nextDueAt" as next_due_at, known."backlogStartedAt" as backlog_started_at,
               run_precedence_1(run.trigger) as precedence,
               run_goes_alone_1(run.trigger, run.beside, known.overlap, known.parallel) as alone
        from   job_runs run
        join   known on known.name = run.job_name
        where  run.status in ('queued', 'failed', 'orphaned')
        and    run.next_attempt_at <= clock_timestamp()
        and    run.fire_time <= clock_timestamp()
      ),
      ready as (
        select due.*,
               case when due.precedence > 0 then greatest(due.next_attempt_at, due.backlog_started_at) else due.next_attempt_at end as since,
               least(case when due.alone and due.overlap <> 'allow' then due.next_due_at end, slot_needed_at) as place_needed_at,
               row_number() over (partition by due.job_name, due.alone order by due.precedence, due.fire_time) as turn,
               row_number() over (partition by due.backfill_id order by due.fire_time) as backfill_turn
        from   due
      ),
      free as (
        select ready.*,
               row_number() over (partition by ready.concurrency_group order by ready.since, ready.precedence, ready.fire_time) as group_turn
        from   ready
        cross  join lateral run_has_place_1(ready.job_name, ready.trigger, ready.beside, ready.alone, ready.overlap, ready.parallel,
                 ready.turn, ready.backfill_id, ready.backfill_turn, ready.place_needed_at) place
        where  place.has_place
      )
      select free.job_name, free.fire_time, free.attempt, free.trigger, free.beside, free.since
      from   free
      cross  join lateral run_has_group_place_1(free.concurrency_group, free.group_limit, free.group_turn) in_group
      where  in_group.has_place
      order  by free.precedence, free.next_attempt_at, free.fire_time
      limit  most;
    end $$`,

    // Whether runs of other instances are under way, and those whose owner says that it holds a lock, and does not.
    // Whether a lock is free is asked by trying it, shared and for the statement alone: that costs less than a look at
    // all locks of the server, and holds nobody up. Rows of the dead stay for a day: what one of them still had after
    // ten minutes is left to its leases, so that no look grows with them.
    `create or replace function @schema.others_gone_1(instance text, most integer) returns table (run boolean, gone jsonb)
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    begin
      return query
      -- Picked first: the planner would try the lock before it compares instants.
      with others as materialized (
        select other.id, other.lifeline
        from   job_instances other
        where  other.lifeline is not null
        and    other.id <> instance
        and    other.alive_until > clock_timestamp() - interval '10 minutes'
      ),
      gone as materialized (
        select others.id, others.lifeline
        from   others
        where  pg_try_advisory_xact_lock_shared(others.lifeline)
      ),
      runs as (
        select run.job_name, run.fire_time, run.attempt, run.claimed_by, gone.lifeline
        from   gone
        join   job_runs run on run.claimed_by = gone.id
        where  run_is_leased_1(run.status, run.lease_until)
        order  by run.job_name, run.fire_time
        limit  most
      )
      select exists (select from job_runs other where other.status = 'running' and other.claimed_by <> instance),
            (select jsonb_agg(jsonb_build_object(
                      'jobName', runs.job_name, 'fireTime', runs.fire_time, 'attempt', runs.attempt, 'instanceId', runs.claimed_by,
                      'lifeline', runs.lifeline::text))
             from   runs);
    end $$`,

    // Cuts the leases of attempts short whose instance is one of those that are gone. A row that somebody holds is
    // passed over. The reaper does the rest, and has their open transactions ended.
    `create or replace function @schema.job_run_cut_1(
      jobs text[], fire_times timestamptz[], attempts integer[], instances text[], gone text[], its_releases integer)
    returns table (job_name text, fire_time timestamptz, attempt integer, claimed_by text)
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    #variable_conflict use_column
    begin
      return query
      with cut as materialized (
        select run.job_name, run.fire_time
        from   unnest(jobs, fire_times, attempts, instances) as given (job_name, fire_time, attempt, claimed_by)
        join   job_runs run on run.job_name = given.job_name and run.fire_time = given.fire_time
        where  given.claimed_by = any (gone)
        and    run_is_ours_1(given.attempt, given.claimed_by, run.attempt, run.claimed_by, run.status, run.lease_until)
        order  by run.job_name, run.fire_time
        for    no key update of run skip locked
      )
      update job_runs run
      set    lease_until = clock_timestamp(),
             releases = least(run.releases + its_releases, run.attempt),
             reason = 'the liveness lock of ' || run.claimed_by || ' was gone'
      from   cut
      where  run.job_name = cut.job_name
      and    run.fire_time = cut.fire_time
      returning run.job_name, run.fire_time, run.attempt, run.claimed_by;
      if found then perform wake_1('runs'); end if;
    end $$`,

    // What the handlers of an instance are to stop for: runs that somebody asked to cancel, and, of the flags that were
    // asked for, those that are off.
    `create or replace function @schema.asked_to_stop_1(instance text, flags text[])
    returns table (cancels jsonb, flags_off text[])
    language plpgsql stable set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    begin
      return query
      select (select jsonb_agg(jsonb_build_object(
                'jobName', run.job_name, 'fireTime', run.fire_time, 'attempt', run.attempt, 'reason', run.cancel_reason))
              from   job_runs run
              where  run.status = 'running'
              and    run.claimed_by = instance
              and    run.cancel_requested_at is not null),
             (select array_agg(flag.name)
              from   job_flags flag
              where  flag.name = any (flags)
              and    not flag.is_on);
    end $$`,

    // Ends the leases of runs whose owner's liveness lock is the same as it was seen, and is still not there. Their rows say
    // why, and every instance looks at what can be started now.
    `create or replace function @schema.job_run_take_over_1(
      jobs text[], fire_times timestamptz[], attempts integer[], instances text[], lifelines bigint[])
    returns table (job_name text, fire_time timestamptz, attempt integer, claimed_by text)
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    declare
      gone text[];
    begin
      gone := array(
        with others as materialized (
          select other.id, other.lifeline
          from   job_instances other
          where (other.id, other.lifeline) in (select * from unnest(instances, lifelines))
        )
        select others.id
        from   others
        where  pg_try_advisory_xact_lock_shared(others.lifeline));
      return query select * from job_run_cut_1(jobs, fire_times, attempts, instances, gone, 0);
    end $$`,

    // Ends the leases of runs that an instance has told its handlers to stop: others need not wait for them. The
    // attempts do not count, as those that are handed back: a database that was away for a moment is not the run's
    // fault.
    `create or replace function @schema.job_run_give_up_1(jobs text[], fire_times timestamptz[], attempts integer[], instance text)
    returns table (job_name text, fire_time timestamptz, attempt integer, claimed_by text)
    language plpgsql set search_path = @schema, pg_temp set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
    begin
      return query select * from job_run_cut_1(jobs, fire_times, attempts, array_fill(instance, array[cardinality(jobs)]), array[instance], 1);
    end $$`,
  ],
  down: [
    `drop function if exists @schema.job_run_give_up_1`,
    `drop function if exists @schema.job_run_take_over_1`,
    `drop function if exists @schema.asked_to_stop_1`,
    `drop function if exists @schema.job_run_cut_1`,
    `drop function if exists @schema.others_gone_1`,
    `drop function if exists @schema.job_run_waiting_1`,
    `drop function if exists @schema.job_run_outlook_1`,
    `drop function if exists @schema.job_run_cancel_removed_1`,
    `drop function if exists @schema.job_run_reap_1`,
    `drop function if exists @schema.run_is_reaped_by_1`,
    `drop function if exists @schema.may_end_sessions_of_1`,
    `drop function if exists @schema.job_run_renew_1`,
    `drop function if exists @schema.job_run_hand_back_1`,
    `drop function if exists @schema.job_run_end_1`,
    `drop function if exists @schema.job_run_start_1`,
    `drop function if exists @schema.job_run_claim_1`,
    `drop function if exists @schema.job_run_decided_1`,
    `drop function if exists @schema.earlier_attempts_of_1`,
    `drop function if exists @schema.run_has_place_1`,
    `drop function if exists @schema.run_has_group_place_1`,
    `drop function if exists @schema.group_running_1`,
    `drop function if exists @schema.job_may_start_1`,
    `drop function if exists @schema.job_held_until_1`,
    `drop function if exists @schema.run_gives_way_1`,
    `drop function if exists @schema.run_goes_alone_1`,
    `drop function if exists @schema.run_precedence_1`,
    `alter table if exists @schema.job_runs drop column if exists claim`,
  ],
});
