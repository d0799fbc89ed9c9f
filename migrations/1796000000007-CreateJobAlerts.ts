import type { MigrationInterface, QueryRunner } from 'typeorm';
import { Tables } from '../lib/store/tables.js';

/** Creates `job_alerts`: what one replica told for all of them. By default in the schema of the data source that runs it. */
export const createJobAlerts = (schema?: string) =>
  class CreateJobAlerts1796000000007 implements MigrationInterface {
    readonly name = 'CreateJobAlerts1796000000007';

    async up(queryRunner: QueryRunner): Promise<void> {
      await queryRunner.query(`
        create table if not exists ${Tables.of(queryRunner, schema).jobAlerts} (
          key     text        not null,
          told_at timestamptz not null,
          constraint job_alerts_pkey primary key (key)
        )`);
    }

    async down(queryRunner: QueryRunner): Promise<void> {
      await queryRunner.query(`drop table if exists ${Tables.of(queryRunner, schema).jobAlerts}`);
    }
  };
