import { migration } from './frozen.js';

/** Creates `job_alerts`: what one replica told for all of them. */
export const createJobAlerts = migration('CreateJobAlerts1796000000007', {
  up: [
    `create table if not exists @schema.job_alerts (
      key     text        not null,
      told_at timestamptz not null,
      constraint job_alerts_pkey primary key (key)
    )`,
  ],
  down: [`drop table if exists @schema.job_alerts`],
});
