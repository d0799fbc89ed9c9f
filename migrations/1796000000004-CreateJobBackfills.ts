import { migration } from './frozen.js';

/** Creates `job_backfills`. */
export const createJobBackfills = migration('CreateJobBackfills1796000000004', {
  up: [
    `create table if not exists @schema.job_backfills (
      id               uuid        not null default gen_random_uuid(),
      job_name         text        not null,
      range_from       timestamptz not null,
      range_to         timestamptz not null,
      max_concurrent   integer     not null,
      beside           boolean     not null,
      replay           boolean     not null,
      fed_until        timestamptz not null,
      total            integer     not null,
      fed              integer     not null default 0,
      left_alone       integer     not null default 0,
      requested_by     text,
      reason           text,
      created_at       timestamptz not null default clock_timestamp(),
      finished_at      timestamptz,
      cancelled_at     timestamptz,
      cancelled_by     text,
      cancelled_reason text,
      constraint job_backfills_pkey primary key (id),
      constraint job_backfills_range_is_one check (range_from <= range_to),
      constraint job_backfills_runs_something_at_a_time check (max_concurrent > 0),
      constraint job_backfills_times_are_finite check (isfinite(range_from) and isfinite(range_to) and isfinite(fed_until))
    )`,
    `create index if not exists job_backfills_active on @schema.job_backfills (job_name)
    where finished_at is null and cancelled_at is null`,
  ],
  down: [`drop table if exists @schema.job_backfills`],
});
