import type { MigrationInterface, QueryRunner } from 'typeorm';
import { createMoveTriggers } from '../lib/store/runs/run-move-triggers.js';
import { Tables } from '../lib/store/tables.js';

/** Creates `job_runs`, still without partitions, by default in the schema of the data source that runs it. */
export const createJobRuns = (schema?: string) =>
  class CreateJobRuns1796000000002 implements MigrationInterface {
    readonly name = 'CreateJobRuns1796000000002';

    async up(queryRunner: QueryRunner): Promise<void> {
      const tables = Tables.of(queryRunner, schema);
      const { jobRuns } = tables;
      await queryRunner.query(`
        create table if not exists ${jobRuns} (
          job_name         text        not null,
          fire_time        timestamptz not null,
          id               uuid        not null default gen_random_uuid(),
          status           text        not null,
          trigger          text        not null,
          reason           text,
          claimed_by       text,
          lease_until      timestamptz,
          attempt          integer     not null default 0,
          releases         integer     not null default 0,
          started_at       timestamptz,
          finished_at      timestamptz,
          next_attempt_at  timestamptz,
          error            jsonb,
          checkpoint       jsonb,
          earlier_attempts jsonb       not null default '[]',
          requested_by        text,
          data                jsonb,
          cancel_requested_at timestamptz,
          cancel_reason       text,
          concurrency_group   text,
          gap_from         timestamptz,
          gap_count        integer,
          backfill_id      uuid,
          beside           boolean     not null default false,
          pages            integer,
          created_at       timestamptz not null default clock_timestamp(),
          constraint job_runs_once primary key (job_name, fire_time),
          constraint job_runs_fire_time_in_whole_seconds check (
            case when trigger = 'manual' then mod(extract(epoch from fire_time) * 1000, 1) = 0 and mod(extract(epoch from fire_time), 1) <> 0
                 else mod(extract(epoch from fire_time), 1) = 0 end),
          constraint job_runs_times_are_finite check (
            isfinite(lease_until) and isfinite(next_attempt_at) and isfinite(started_at) and isfinite(finished_at)
            and isfinite(gap_from)),
          constraint job_runs_attempts_are_counted check (attempt between 0 and 1000000 and releases between 0 and attempt),
          constraint job_runs_status_known check (
            status in ('queued', 'running', 'fanned_out', 'done', 'failed', 'orphaned', 'dead', 'skipped', 'cancelled')),
          constraint job_runs_running_is_leased check (
            status <> 'running' or (claimed_by is not null and lease_until is not null and attempt > 0)),
          constraint job_runs_fanned_out_has_pages check (
            status <> 'fanned_out' or (claimed_by is not null and lease_until is null and pages > 0)),
          constraint job_runs_waiting_has_a_time check (
            (status in ('queued', 'failed', 'orphaned')) = (next_attempt_at is not null)),
          constraint job_runs_skipped_has_a_reason check (status <> 'skipped' or reason is not null)
        ) partition by range (fire_time)`);
      // Without lease_until: a heartbeat then changes no indexed column, and PostgreSQL updates the row in place (HOT).
      await queryRunner.query(`
        create index if not exists job_runs_running on ${jobRuns} (job_name)
        where status in ('running', 'fanned_out')`);
      await queryRunner.query(`
        create index if not exists job_runs_waiting on ${jobRuns} (next_attempt_at)
        where status in ('queued', 'failed', 'orphaned')`);
      await queryRunner.query(`
        create index if not exists job_runs_of_backfill on ${jobRuns} (backfill_id)
        where backfill_id is not null`);
      // Few, and looked for from any fire time inside them.
      await queryRunner.query(`
        create index if not exists job_runs_gaps on ${jobRuns} (job_name, fire_time)
        where gap_from is not null`);
      await queryRunner.query(`
        create index if not exists job_runs_dead on ${jobRuns} (fire_time)
        where status = 'dead'`);
      for (const statement of createMoveTriggers(tables)) await queryRunner.query(statement);
    }

    async down(queryRunner: QueryRunner): Promise<void> {
      const tables = Tables.of(queryRunner, schema);
      await queryRunner.query(`drop table if exists ${tables.jobRuns}`);
      await queryRunner.query(`drop function if exists ${tables.refuseMove}()`);
    }
  };
