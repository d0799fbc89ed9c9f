import type { MigrationInterface, QueryRunner } from 'typeorm';
import { Tables } from '../lib/store/tables.js';

/** Creates `job_actions` and `job_flags`, by default in the schema of the data source that runs it. */
export const createJobActions = (schema?: string) =>
  class CreateJobActions1796000000006 implements MigrationInterface {
    readonly name = 'CreateJobActions1796000000006';

    async up(queryRunner: QueryRunner): Promise<void> {
      const tables = Tables.of(queryRunner, schema);
      await queryRunner.query(`
        create table if not exists ${tables.jobActions} (
          id        bigint      not null generated always as identity,
          at        timestamptz not null default clock_timestamp(),
          action    text        not null,
          job_name  text,
          fire_time timestamptz,
          actor     text        not null,
          reason    text,
          details   jsonb,
          constraint job_actions_pkey primary key (id)
        )`);
      await queryRunner.query(`
        create index if not exists job_actions_of_job on ${tables.jobActions} (job_name, at)`);
      await queryRunner.query(`
        create table if not exists ${tables.jobFlags} (
          name       text        not null,
          is_on      boolean     not null,
          changed_by text,
          reason     text,
          changed_at timestamptz not null default clock_timestamp(),
          constraint job_flags_pkey primary key (name)
        )`);
    }

    async down(queryRunner: QueryRunner): Promise<void> {
      const tables = Tables.of(queryRunner, schema);
      await queryRunner.query(`drop table if exists ${tables.jobFlags}`);
      await queryRunner.query(`drop table if exists ${tables.jobActions}`);
    }
  };
