import type { MigrationInterface, QueryRunner } from 'typeorm';
import { ensureSchema, Tables } from '../lib/store/tables.js';

/** Creates `job_schedule`, and its schema if that is missing; by default the schema is that of the data source that runs it. */
export const createJobSchedule = (schema?: string) =>
  class CreateJobSchedule1796000000001 implements MigrationInterface {
    readonly name = 'CreateJobSchedule1796000000001';

    async up(queryRunner: QueryRunner): Promise<void> {
      const tables = Tables.of(queryRunner, schema);
      await ensureSchema(queryRunner, tables.schema);
      await queryRunner.query(`
        create table if not exists ${tables.jobSchedule} (
          name           text        not null,
          cron           text        not null,
          time_zone      text        not null,
          owner          text,
          policies       jsonb       not null,
          enabled        boolean     not null default true,
          paused_at      timestamptz,
          paused_until   timestamptz,
          paused_by      text,
          paused_reason  text,
          effective_from timestamptz not null default clock_timestamp(),
          decided_until  timestamptz not null default clock_timestamp(),
          declared_at    timestamptz not null default clock_timestamp(),
          constraint job_schedule_pkey primary key (name),
          constraint job_schedule_times_are_finite check (isfinite(effective_from) and isfinite(decided_until) and isfinite(paused_at))
        )`);
    }

    async down(queryRunner: QueryRunner): Promise<void> {
      await queryRunner.query(`drop table if exists ${Tables.of(queryRunner, schema).jobSchedule}`);
    }
  };
