import type { MigrationInterface, QueryRunner } from 'typeorm';
import { Tables } from '../lib/store/tables.js';

/** Creates `job_pages`, still without partitions, by default in the schema of the data source that runs it. */
export const createJobPages = (schema?: string) =>
  class CreateJobPages1796000000008 implements MigrationInterface {
    readonly name = 'CreateJobPages1796000000008';

    async up(queryRunner: QueryRunner): Promise<void> {
      const { jobPages } = Tables.of(queryRunner, schema);
      await queryRunner.query(`
        create table if not exists ${jobPages} (
          job_name        text        not null,
          fire_time       timestamptz not null,
          page            text        not null,
          data            jsonb,
          status          text        not null default 'queued',
          attempt         integer     not null default 0,
          releases        integer     not null default 0,
          ticket          integer     not null default 0,
          claimed_by      text,
          started_at      timestamptz,
          finished_at     timestamptz,
          next_attempt_at timestamptz,
          enqueued_at     timestamptz,
          error           jsonb,
          reason          text,
          created_at      timestamptz not null default clock_timestamp(),
          constraint job_pages_once primary key (job_name, fire_time, page),
          constraint job_pages_status_known check (status in ('queued', 'running', 'done', 'failed', 'dead', 'cancelled')),
          constraint job_pages_attempts_are_counted check (attempt between 0 and 1000000 and releases between 0 and attempt),
          constraint job_pages_running_is_owned check (status <> 'running' or (claimed_by is not null and attempt > 0)),
          constraint job_pages_waiting_has_a_time check ((status in ('queued', 'failed')) = (next_attempt_at is not null)),
          constraint job_pages_times_are_finite check (isfinite(next_attempt_at) and isfinite(started_at) and isfinite(finished_at))
        ) partition by range (fire_time)`);
      await queryRunner.query(`
        create index if not exists job_pages_open on ${jobPages} (job_name, fire_time)
        where status in ('queued', 'running', 'failed')`);
      await queryRunner.query(`
        create index if not exists job_pages_to_hand_over on ${jobPages} (next_attempt_at)
        where status in ('queued', 'failed') and enqueued_at is null`);
      await queryRunner.query(`
        create index if not exists job_pages_dead on ${jobPages} (fire_time)
        where status = 'dead'`);
    }

    async down(queryRunner: QueryRunner): Promise<void> {
      await queryRunner.query(`drop table if exists ${Tables.of(queryRunner, schema).jobPages}`);
    }
  };
