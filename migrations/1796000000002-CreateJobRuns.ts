import { migration } from './frozen.js';

/** Creates `job_runs`, still without partitions. */
export const createJobRuns = migration('CreateJobRuns1796000000002', {
  up: [
    `create table if not exists @schema.job_runs (
      job_name         text        not null,
      fire_time        timestamptz not null,
      id               uuid        not null default gen_random_uuid(),
      status           text        not null,
      trigger          text        not null,
      reason           text,
      claimed_by       text,
      lease_until      timestamptz,
      attempt          integer     not null default 0,
      releases         integer     not null default 0,
      started_at       timestamptz,
      finished_at      timestamptz,
      next_attempt_at  timestamptz,
      error            jsonb,
      checkpoint       jsonb,
      earlier_attempts jsonb       not null default '[]',
      requested_by        text,
      data                jsonb,
      cancel_requested_at timestamptz,
      cancel_reason       text,
      concurrency_group   text,
      gap_from         timestamptz,
      gap_count        integer,
      backfill_id      uuid,
      beside           boolean     not null default false,
      pages            integer,
      created_at       timestamptz not null default clock_timestamp(),
      constraint job_runs_once primary key (job_name, fire_time),
      constraint job_runs_fire_time_in_whole_seconds check (
        case when trigger = 'manual' then mod(extract(epoch from fire_time) * 1000, 1) = 0 and mod(extract(epoch from fire_time), 1) <> 0
             else mod(extract(epoch from fire_time), 1) = 0 end),
      constraint job_runs_times_are_finite check (
        isfinite(lease_until) and isfinite(next_attempt_at) and isfinite(started_at) and isfinite(finished_at)
        and isfinite(gap_from)),
      constraint job_runs_attempts_are_counted check (attempt between 0 and 1000000 and releases between 0 and attempt),
      constraint job_runs_status_known check (
        status in ('queued', 'running', 'fanned_out', 'done', 'failed', 'orphaned', 'dead', 'skipped', 'cancelled')),
      constraint job_runs_running_is_leased check (
        status <> 'running' or (claimed_by is not null and lease_until is not null and attempt > 0)),
      constraint job_runs_fanned_out_has_pages check (
        status <> 'fanned_out' or (claimed_by is not null and lease_until is null and pages > 0)),
      constraint job_runs_waiting_has_a_time check (
        (status in ('queued', 'failed', 'orphaned')) = (next_attempt_at is not null)),
      constraint job_runs_skipped_has_a_reason check (status <> 'skipped' or reason is not null)
    ) partition by range (fire_time)`,
    // Without lease_until: a heartbeat then changes no indexed column, and PostgreSQL updates the row in place (HOT).
    `create index if not exists job_runs_running on @schema.job_runs (job_name)
    where status in ('running', 'fanned_out')`,
    `create index if not exists job_runs_waiting on @schema.job_runs (next_attempt_at)
    where status in ('queued', 'failed', 'orphaned')`,
    // Few, and looked for from any fire time inside them.
    `create index if not exists job_runs_gaps on @schema.job_runs (job_name, fire_time)
    where gap_from is not null`,
    `create index if not exists job_runs_dead on @schema.job_runs (fire_time)
    where status = 'dead'`,
    // The moves stand in the function, which a session reads once: a condition of the trigger would be read again by
    // every statement.
    `create or replace function @schema.job_runs_refuse_move() returns trigger language plpgsql as $$
    begin
      if tg_op = 'INSERT' then
        raise exception 'A run may not begin as % (% of %)', new.status, new.job_name, new.fire_time
        using errcode = 'check_violation', constraint = 'job_runs_moves_are_known', table = 'job_runs';
      end if;
      if old.status || ' ' || new.status in (
          'queued running', 'failed running', 'orphaned running', 'running done', 'running fanned_out',
          'running failed', 'running dead', 'running queued', 'running orphaned', 'running cancelled',
          'fanned_out done', 'fanned_out dead', 'fanned_out cancelled', 'queued cancelled', 'failed cancelled',
          'orphaned cancelled', 'dead cancelled', 'dead queued', 'dead fanned_out', 'done queued',
          'skipped queued', 'cancelled queued', 'queued done', 'queued dead', 'queued skipped') then
        return new;
      end if;
      raise exception 'A run may not go from % to % (% of %)', old.status, new.status, new.job_name, new.fire_time
      using errcode = 'check_violation', constraint = 'job_runs_moves_are_known', table = 'job_runs';
    end $$`,
    `create or replace trigger job_runs_begin_as_they_may
    before insert on @schema.job_runs
    for    each row
    when  (new.status not in ('running', 'skipped', 'queued'))
    execute function @schema.job_runs_refuse_move()`,
    `create or replace trigger job_runs_move_as_they_may
    before update of status on @schema.job_runs
    for    each row
    when  (old.status <> new.status)
    execute function @schema.job_runs_refuse_move()`,
  ],
  down: [`drop table if exists @schema.job_runs`, `drop function if exists @schema.job_runs_refuse_move()`],
});
