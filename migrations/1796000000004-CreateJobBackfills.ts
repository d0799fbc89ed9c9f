import type { MigrationInterface, QueryRunner } from 'typeorm';
import { Tables } from '../lib/store/tables.js';

/** Creates `job_backfills`, by default in the schema of the data source that runs it. */
export const createJobBackfills = (schema?: string) =>
  class CreateJobBackfills1796000000004 implements MigrationInterface {
    readonly name = 'CreateJobBackfills1796000000004';

    async up(queryRunner: QueryRunner): Promise<void> {
      const { jobBackfills } = Tables.of(queryRunner, schema);
      await queryRunner.query(`
        create table if not exists ${jobBackfills} (
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
        )`);
      await queryRunner.query(`
        create index if not exists job_backfills_active on ${jobBackfills} (job_name)
        where finished_at is null and cancelled_at is null`);
    }

    async down(queryRunner: QueryRunner): Promise<void> {
      await queryRunner.query(`drop table if exists ${Tables.of(queryRunner, schema).jobBackfills}`);
    }
  };
