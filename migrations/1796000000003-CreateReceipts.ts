import { migration } from './frozen.js';

/** Creates `receipts`, still without partitions, and `receipt_secret`. */
export const createReceipts = migration('CreateReceipts1796000000003', {
  up: [
    `create table if not exists @schema.receipts (
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
    ) partition by range (fire_time)`,
    `create index if not exists receipts_in_doubt on @schema.receipts (job_name, fire_time)
    where state in ('open', 'in_doubt')`,
    `create table if not exists @schema.receipt_secret (
      is_one boolean not null default true,
      secret text    not null default gen_random_uuid()::text || gen_random_uuid()::text,
      constraint receipt_secret_pkey primary key (is_one),
      constraint receipt_secret_is_one check (is_one)
    )`,
    `insert into @schema.receipt_secret default values on conflict do nothing`,
  ],
  down: [
    `drop table if exists @schema.receipt_secret`,
    `drop table if exists @schema.receipts`,
    // The first form of this migration made them, and its replicas go on with them beside those of a later release.
    `drop function if exists @schema.receipts_begin`,
    `drop function if exists @schema.receipts_end`,
    `drop function if exists @schema.receipts_may_begin`,
    `drop function if exists @schema.receipts_may_end`,
  ],
});
