import type { MigrationInterface, QueryRunner } from 'typeorm';
import { Tables } from '../lib/store/tables.js';

/** Creates `receipts`, still without partitions, by default in the schema of the data source that runs it. */
export const createReceipts = (schema?: string) =>
  class CreateReceipts1796000000003 implements MigrationInterface {
    readonly name = 'CreateReceipts1796000000003';

    async up(queryRunner: QueryRunner): Promise<void> {
      await queryRunner.query(`
        create table if not exists ${Tables.of(queryRunner, schema).receipts} (
          entity          text        not null,
          effect          text        not null default 'default',
          job_name        text        not null,
          fire_time       timestamptz not null,
          attempt         integer     not null,
          claimed_by      text        not null,
          state           text        not null default 'done',
          idempotency_key text        not null,
          result          jsonb,
          created_at      timestamptz not null default clock_timestamp(),
          constraint receipts_once primary key (job_name, fire_time, entity, effect),
          constraint receipts_state_known check (state in ('done'))
        ) partition by range (fire_time)`);
    }

    async down(queryRunner: QueryRunner): Promise<void> {
      await queryRunner.query(`drop table if exists ${Tables.of(queryRunner, schema).receipts}`);
    }
  };
