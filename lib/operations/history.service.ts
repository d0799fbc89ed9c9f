import { Injectable } from '@nestjs/common';
import { queryOn } from '../database/query.js';
import { AfterRegistration } from '../database/registration.js';
import { SchedulerDatabase } from '../database/scheduler-database.js';
import type { StoredError } from '../errors/stored-error.js';
import { instant, knownAs, readOperationOptions } from '../options/operator-options.js';
import { integer, oneOf, type OptionTable } from '../options/option-rules.js';
import type { RunKey, RunStatus, RunTrigger } from '../options/run.js';

const STATUSES = [
  'queued',
  'running',
  'fanned_out',
  'done',
  'failed',
  'orphaned',
  'dead',
  'skipped',
  'cancelled',
] as const satisfies readonly RunStatus[];

/** Which runs are listed. */
export interface RunsFilter {
  /** @default every job */
  readonly jobName?: string;
  readonly status?: RunStatus;
  /** The earliest fire time. @default a day ago, by the database's clock */
  readonly from?: Date;
  /** The latest fire time. @default none */
  readonly to?: Date;
  /** How many at most for each job; 1 to 10000. @default 100 */
  readonly limit?: number;
}

const RUNS_FILTER = {
  jobName: { rule: knownAs },
  status: { rule: oneOf<RunStatus>(...STATUSES) },
  from: { rule: instant },
  to: { rule: instant },
  limit: { rule: integer({ atLeast: 1, atMost: 10_000 }) },
} as const satisfies Record<keyof RunsFilter, OptionTable[string]>;

/** One row of `job_runs`, for people. */
export interface ListedRun extends RunKey {
  readonly timeZone: string;
  readonly status: RunStatus;
  readonly trigger: RunTrigger;
  /** Why it does not run, or was ended; null where nothing needs to be said. */
  readonly reason: string | null;
  /** 0 where no handler was started. */
  readonly attempt: number;
  /** The instance that has it, or had its last attempt. */
  readonly instanceId: string | null;
  readonly startedAt: Date | null;
  readonly finishedAt: Date | null;
  readonly nextAttemptAt: Date | null;
  readonly error: StoredError | null;
  /** How many occurrences the row stands for, where that is a gap. */
  readonly gapCount: number | null;
  /** How many pages it was fanned out into. */
  readonly pages: number | null;
}

/** A process that takes part. */
export interface Replica {
  readonly instanceId: string;
  readonly application: string | null;
  readonly startedAt: Date;
  /** It counts as alive until then, unless it says so again. */
  readonly aliveUntil: Date;
  readonly isAlive: boolean;
  /** Since when its event loop stands still; null while it moves. */
  readonly blockedSince: Date | null;
  /** The version of its time-zone data. */
  readonly tz: string | null;
  /** How many jobs its code declares, and how many handlers for jobs made at run time. */
  readonly jobs: number;
  /** Runs that it has now. */
  readonly running: number;
}

/** What an operator did: who, what, why and when. */
export interface KeptAction {
  /** Ascending; a bigint, so a string. */
  readonly id: string;
  readonly at: Date;
  /** The verb: `pause`, `replay`, … */
  readonly action: string;
  readonly jobName: string | null;
  readonly fireTime: Date | null;
  readonly actor: string;
  readonly reason: string | null;
  readonly details: Record<string, unknown> | null;
}

export interface ActionsOptions {
  /** @default those of all jobs, and those of none */
  readonly jobName?: string;
  /** 1 to 10000. @default 100 */
  readonly limit?: number;
}

const ACTIONS_OPTIONS = {
  jobName: { rule: knownAs },
  limit: { rule: integer({ atLeast: 1, atMost: 10_000 }) },
} as const satisfies Record<keyof ActionsOptions, OptionTable[string]>;

/** What ran, who runs it, and what operators did; writes nothing. */
@Injectable()
@AfterRegistration()
export class History {
  constructor(private readonly database: SchedulerDatabase) {}

  /** See `SchedulerService.runs`. */
  async runs(filter?: RunsFilter): Promise<ListedRun[]> {
    const read = readOperationOptions(filter, RUNS_FILTER, 'SchedulerService.runs');
    const { jobName = null, status = null, from = null, to = null, limit = 100 } = read;
    const { jobRuns, jobSchedule } = this.database.tables;
    return queryOn(this.database.coordination)<ListedRun>(
      `select run.job_name as "jobName", run.fire_time as "fireTime", job.time_zone as "timeZone", run.status, run.trigger, run.reason,
              run.attempt, run.claimed_by as "instanceId", run.started_at as "startedAt", run.finished_at as "finishedAt",
              run.next_attempt_at as "nextAttemptAt", run.error, run.gap_count as "gapCount", run.pages
       from   ${jobSchedule} job
       -- Job by job, by the primary key: the months hold every run of every job.
       cross  join lateral (
                select *
                from   ${jobRuns} run
                where  run.job_name = job.name
                and    run.fire_time >= coalesce($3::timestamptz, clock_timestamp() - interval '1 day')
                and    run.fire_time <= coalesce($4::timestamptz, 'infinity')
                and   ($2::text is null or run.status = $2)
                order  by run.fire_time desc
                limit  $5) run
       where  $1::text is null
       or     job.name = $1
       order  by run.fire_time desc, run.job_name`,
      [jobName, status, from?.toISOString() ?? null, to?.toISOString() ?? null, limit],
    );
  }

  /** See `SchedulerService.replicas`. */
  async replicas(): Promise<Replica[]> {
    const { jobRuns, jobInstances } = this.database.tables;
    return queryOn(this.database.coordination)<Replica>(
      `select instance.id as "instanceId", application, started_at as "startedAt", alive_until as "aliveUntil",
              alive_until > clock_timestamp() as "isAlive", blocked_since as "blockedSince", tz,
             (select count(*)::integer from jsonb_object_keys(jobs)) + jsonb_array_length(handlers) as jobs,
              coalesce(running.count, 0) as running
       from   ${jobInstances} instance
       left   join (select claimed_by, count(*)::integer from ${jobRuns} where status = 'running' group by claimed_by) running
              on running.claimed_by = instance.id
       order  by started_at desc`,
    );
  }

  /** See `SchedulerService.actions`. */
  async actions(options?: ActionsOptions): Promise<KeptAction[]> {
    const { jobName = null, limit = 100 } = readOperationOptions(options, ACTIONS_OPTIONS, 'SchedulerService.actions');
    return queryOn(this.database.coordination)<KeptAction>(
      `select id, at, action, job_name as "jobName", fire_time as "fireTime", actor, reason, details
       from   ${this.database.tables.jobActions}
       where  $1::text is null
       or     job_name = $1
       order  by id desc
       limit  $2`,
      [jobName, limit],
    );
  }
}
