import { migration } from './frozen.js';

/** Creates `job_pages`, still without partitions. */
export const createJobPages = migration('CreateJobPages1796000000008', {
  up: [
    `create table if not exists @schema.job_pages (
      job_name        text        not null,
      fire_time       timestamptz not null,
      page            text        not null,
      data            jsonb,
      status          text        not null default 'queued',
      attempt         integer     not null default 0,
      releases        integer     not null default 0,
      ticket          integer     not null default 0,
      claimed_by      text,
      started_at      timestamptz,
      finished_at     timestamptz,
      next_attempt_at timestamptz,
      enqueued_at     timestamptz,
      error           jsonb,
      reason          text,
      created_at      timestamptz not null default clock_timestamp(),
      constraint job_pages_once primary key (job_name, fire_time, page),
      constraint job_pages_status_known check (status in ('queued', 'running', 'done', 'failed', 'dead', 'cancelled')),
      constraint job_pages_attempts_are_counted check (attempt between 0 and 1000000 and releases between 0 and attempt),
      constraint job_pages_running_is_owned check (status <> 'running' or (claimed_by is not null and attempt > 0)),
      constraint job_pages_waiting_has_a_time check ((status in ('queued', 'failed')) = (next_attempt_at is not null)),
      constraint job_pages_times_are_finite check (isfinite(next_attempt_at) and isfinite(started_at) and isfinite(finished_at))
    ) partition by range (fire_time)`,
    `create index if not exists job_pages_open on @schema.job_pages (job_name, fire_time)
    where status in ('queued', 'running', 'failed')`,
    `create index if not exists job_pages_to_hand_over on @schema.job_pages (next_attempt_at)
    where status in ('queued', 'failed') and enqueued_at is null`,
    `create index if not exists job_pages_dead on @schema.job_pages (fire_time)
    where status = 'dead'`,
  ],
  down: [`drop table if exists @schema.job_pages`],
});
