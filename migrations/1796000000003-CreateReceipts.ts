import type { MigrationInterface, QueryRunner } from 'typeorm';
import { createReceiptFences } from '../lib/store/receipts/receipt-fences.js';
import { Tables } from '../lib/store/tables.js';

/** Creates `receipts`, still without partitions, and `receipt_secret`, by default in the schema of the data source that runs it. */
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
          opened_at       timestamptz,
          closed_at       timestamptz,
          error           jsonb,
          resolved_by     text,
          resolved_reason text,
          constraint receipts_once primary key (job_name, fire_time, entity, effect),
          constraint receipts_state_known check (state in ('open', 'done', 'in_doubt', 'undone')),
          constraint receipts_not_done_are_calls check (state = 'done' or opened_at is not null)
        ) partition by range (fire_time)`);
      await queryRunner.query(`
        create index if not exists receipts_in_doubt on ${tables.receipts} (job_name, fire_time)
        where state in ('open', 'in_doubt')`);
      await queryRunner.query(`
        create table if not exists ${tables.receiptSecret} (
          is_one boolean not null default true,
          secret text    not null default gen_random_uuid()::text || gen_random_uuid()::text,
          constraint receipt_secret_pkey primary key (is_one),
          constraint receipt_secret_is_one check (is_one)
        )`);
      await queryRunner.query(`insert into ${tables.receiptSecret} default values on conflict do nothing`);
      for (const statement of createReceiptFences(tables)) await queryRunner.query(statement);
    }

    async down(queryRunner: QueryRunner): Promise<void> {
      const tables = Tables.of(queryRunner, schema);
      await queryRunner.query(`drop table if exists ${tables.receiptSecret}`);
      await queryRunner.query(`drop table if exists ${tables.receipts}`);
      for (const fence of [tables.receiptBegin, tables.receiptEnd, tables.receiptMayBegin, tables.receiptMayEnd]) await queryRunner.query(`drop function if exists ${fence}`);
    }
  };
