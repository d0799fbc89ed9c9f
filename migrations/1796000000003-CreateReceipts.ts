import type { MigrationInterface, QueryRunner } from 'typeorm';
import { createReceiptFences } from '../lib/store/receipt-fences.js';
import { Tables } from '../lib/store/tables.js';

/** Creates `receipts`, still without partitions, by default in the schema of the data source that runs it. */
export const createReceipts = (schema?: string) =>
  class CreateReceipts1796000000003 implements MigrationInterface {
    readonly name = 'CreateReceipts1796000000003';

    async up(queryRunner: QueryRunner): Promise<void> {
      const tables = Tables.of(queryRunner, schema);
      await queryRunner.query(`
        create table if not exists ${tables.receipts} (
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
      for (const statement of createReceiptFences(tables)) await queryRunner.query(statement);
    }

    async down(queryRunner: QueryRunner): Promise<void> {
      const { receipts, receiptMayBegin, receiptMayEnd, receiptBegin, receiptEnd } = Tables.of(queryRunner, schema);
      await queryRunner.query(`drop table if exists ${receipts}`);
      for (const fence of [receiptBegin, receiptEnd, receiptMayBegin, receiptMayEnd]) await queryRunner.query(`drop function if exists ${fence}`);
    }
  };
