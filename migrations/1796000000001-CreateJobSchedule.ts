import { migration } from './frozen.js';

/** Creates `job_schedule`, and its schema if that is missing. */
export const createJobSchedule = migration('CreateJobSchedule1796000000001', {
  createsSchema: true,
  up: [
    `create table if not exists @schema.job_schedule (
      name           text        not null,
      cron           text        not null,
      time_zone      text        not null,
      owner          text,
      policies       jsonb       not null,
      handler        text,
      options        jsonb,
      data           jsonb,
      enabled        boolean     not null default true,
      disabled_at    timestamptz,
      paused_at      timestamptz,
      paused_until   timestamptz,
      paused_by      text,
      paused_reason  text,
      earlier_holds  jsonb       not null default '[]',
      calendar          text,
      overridden_at     timestamptz,
      overridden_by     text,
      overridden_reason text,
      effective_from timestamptz not null default clock_timestamp(),
      decided_until  timestamptz not null default clock_timestamp(),
      declared_at    timestamptz not null default clock_timestamp(),
      yields_to      text,
      removed_at     timestamptz,
      revision       bigint      not null default 0,
      constraint job_schedule_pkey primary key (name),
      constraint job_schedule_run_time_job_is_whole check ((handler is null) = (options is null)),
      constraint job_schedule_times_are_finite check (isfinite(effective_from) and isfinite(decided_until) and isfinite(paused_at))
    )`,
    `create index if not exists job_schedule_changes on @schema.job_schedule (revision)`,
    // A trigger, so that no way of resuming a job forgets it: what was due meanwhile is not missed.
    `create or replace function @schema.job_schedule_keep_holds() returns trigger language plpgsql as $$
    begin
      -- With the place of a job its holds go to the name that has it from now on, as they are.
      if (old.yields_to is null) <> (new.yields_to is null) then
        return new;
      end if;
      -- An end alone makes a pause from now on: one that is over, and its end, stay as they were.
      if new.paused_until > clock_timestamp()
         and new.paused_until is distinct from old.paused_until
         and new.paused_at is not distinct from old.paused_at
         and (old.paused_at is null or old.paused_until <= clock_timestamp()) then
        new.paused_at := clock_timestamp();
      end if;
      if old.paused_at is distinct from new.paused_at and old.paused_at is not null then
        new.earlier_holds := new.earlier_holds || jsonb_build_object(
          'reason', 'paused',
          'since', old.paused_at,
          'until', least(old.paused_until, clock_timestamp()),
          'by', old.paused_by,
          'why', old.paused_reason);
      end if;
      if old.enabled and not new.enabled then
        new.disabled_at := coalesce(new.disabled_at, clock_timestamp());
      elsif new.enabled and not old.enabled then
        new.earlier_holds := new.earlier_holds || jsonb_build_object(
          'reason', 'disabled',
          'since', old.disabled_at,
          'until', clock_timestamp());
        new.disabled_at := null;
      end if;
      -- What somebody has spoilt keeps nobody from pausing the job, or resuming it.
      if (case jsonb_typeof(new.earlier_holds) when 'array' then jsonb_array_length(new.earlier_holds) > 100 end) then
        new.earlier_holds := new.earlier_holds - 0;
      end if;
      return new;
    end $$`,
    `create or replace trigger job_schedule_keeps_holds
    before update of paused_at, paused_until, enabled on @schema.job_schedule
    for each row execute function @schema.job_schedule_keep_holds()`,
  ],
  down: [`drop table if exists @schema.job_schedule`, `drop function if exists @schema.job_schedule_keep_holds()`],
});
