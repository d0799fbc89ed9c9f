import { migration } from './frozen.js';

/** Creates `job_instances`. */
export const createJobInstances = migration('CreateJobInstances1796000000005', {
  up: [
    `create table if not exists @schema.job_instances (
      id          text        not null,
      jobs        jsonb       not null,
      handlers    jsonb       not null,
      started_at  timestamptz not null default clock_timestamp(),
      alive_until timestamptz not null,
      blocked_since timestamptz,
      lifeline    bigint,
      declares    bigint      not null default 0,
      constraint job_instances_pkey primary key (id)
    ) with (fillfactor = 50)`,
  ],
  down: [`drop table if exists @schema.job_instances`],
});
