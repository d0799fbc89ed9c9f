import { migration } from './frozen.js';

/** Creates `job_actions` and `job_flags`. */
export const createJobActions = migration('CreateJobActions1796000000006', {
  up: [
    `create table if not exists @schema.job_actions (
      id        bigint      not null generated always as identity,
      at        timestamptz not null default clock_timestamp(),
      action    text        not null,
      job_name  text,
      fire_time timestamptz,
      actor     text        not null,
      reason    text,
      details   jsonb,
      constraint job_actions_pkey primary key (id)
    )`,
    `create index if not exists job_actions_of_job on @schema.job_actions (job_name, at)`,
    `create table if not exists @schema.job_flags (
      name       text        not null,
      is_on      boolean     not null,
      changed_by text,
      reason     text,
      changed_at timestamptz not null default clock_timestamp(),
      constraint job_flags_pkey primary key (name)
    )`,
  ],
  down: [`drop table if exists @schema.job_flags`, `drop table if exists @schema.job_actions`],
});
