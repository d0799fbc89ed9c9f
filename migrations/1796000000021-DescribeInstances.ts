import { migration } from './frozen.js';

/**
 * Lets an instance say of which application it is and which time-zone data it has. A release before goes on beside it:
 * it writes the columns that it knows.
 */
export const describeInstances = migration('DescribeInstances1796000000021', {
  up: [
    `alter table @schema.job_instances
       add column if not exists application text,
       add column if not exists tz          text,
       add column if not exists icu         text,
       add column if not exists zones       jsonb`,
  ],
  down: [
    `alter table if exists @schema.job_instances
       drop column if exists application,
       drop column if exists tz,
       drop column if exists icu,
       drop column if exists zones`,
  ],
});
