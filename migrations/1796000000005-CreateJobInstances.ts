import type { MigrationInterface, QueryRunner } from 'typeorm';
import { Tables } from '../lib/store/tables.js';

/** Creates `job_instances`, by default in the schema of the data source that runs it. */
export const createJobInstances = (schema?: string) =>
  class CreateJobInstances1796000000005 implements MigrationInterface {
    readonly name = 'CreateJobInstances1796000000005';

    async up(queryRunner: QueryRunner): Promise<void> {
      await queryRunner.query(`
        create table if not exists ${Tables.of(queryRunner, schema).jobInstances} (
          id          text        not null,
          jobs        jsonb       not null,
          handlers    jsonb       not null,
          started_at  timestamptz not null default clock_timestamp(),
          alive_until timestamptz not null,
          blocked_since timestamptz,
          lifeline    bigint,
          declares    bigint      not null default 0,
          constraint job_instances_pkey primary key (id)
        ) with (fillfactor = 50)`);
    }

    async down(queryRunner: QueryRunner): Promise<void> {
      await queryRunner.query(`drop table if exists ${Tables.of(queryRunner, schema).jobInstances}`);
    }
  };
