import { standingOf } from '../catch-up/backfill-plan.js';
import { type Query, queryOn } from '../database/query.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import type { Tables } from '../database/tables.js';
import { pageProgress } from '../fan-out/page.repository.js';
import type { CallInDoubt, ExplainedJob, ExplainedRow, ExplainedStart, ExplanationFacts } from './explanation-facts.js';
import { inDoubt } from './in-doubt.service.js';
import type { RunKey } from '../options/run.js';
import type { JobRun } from '../runs/job-run.entity.js';

/** A handler runs for a day at most by default, and what is missed is caught up for a day. */
const DUE_BEFORE = '2 days';

/** A job's schedule as it is stored. */
export interface StoredSchedule {
  readonly cron: string;
  readonly timeZone: string;
  readonly calendar: string | null;
}

/** What the database knows about one planned time. */
export type FoundFacts = Omit<ExplanationFacts, 'schedule'> & { readonly storedSchedule: StoredSchedule | null };

/** What is shown of a checkpoint, in characters. */
const SHOWN_OF_CHECKPOINT = 200;

/** Looks up what an explanation is made of; writes nothing. */
export class ExplainStore {
  private readonly query: Query;

  constructor(private readonly database: SchedulerDatabase) {
    this.query = queryOn(database.coordination);
  }

  async facts(key: RunKey): Promise<FoundFacts> {
    const [clock] = await this.query<{ now: Date }>('select clock_timestamp() as now');
    const { job, storedSchedule } = await this.job(key.jobName);
    const row = await this.row(key);
    const others = row ? await this.others(key, row) : { beside: [], skippedFor: [] };
    const [inDoubt, inTheWay, elsewhere] = [
      await this.inDoubt(key),
      await this.inTheWay(key),
      await this.elsewhere(key),
    ];
    return { ...key, now: clock!.now, job, storedSchedule, row, ...others, inDoubt, inTheWay, elsewhere };
  }

  private async job(name: string): Promise<{ job: ExplainedJob | null; storedSchedule: StoredSchedule | null }> {
    const { jobSchedule, jobInstances } = this.database.tables;
    const [row] = await this.query<StoredSchedule & Omit<ExplainedJob, 'paused'> & PausedRow>(
      `select job.cron, job.time_zone as "timeZone", job.calendar,
              job.effective_from as "effectiveFrom", job.decided_until as "decidedUntil", job.enabled,
              ${this.database.tables.qualify('job_is_paused_1')}(job.paused_at, job.paused_until) as paused,
              job.paused_at as since, job.paused_until as until, job.paused_by as by, job.paused_reason as reason,
              job.policies ->> 'flag' as flag, coalesce(job.policies ->> 'flagOff', 'finish') as "flagOff",
              ${this.database.tables.qualify('flag_is_off_1')}(job.policies ->> 'flag') as "flagIsOff",
              case when (select running from ${this.database.tables.qualify('group_running_1')}(job.policies -> 'concurrencyGroup' ->> 'name')) >= (job.policies -> 'concurrencyGroup' ->> 'limit')::integer
                   then job.policies -> 'concurrencyGroup' end as "fullGroup",
              job.yields_to as "yieldsTo", job.removed_at as "removedAt",
             (select count(*)::integer
              from   ${jobInstances} instance
              where  instance.alive_until > clock_timestamp()
              and   (instance.jobs ? job.name or instance.handlers ? job.handler)) as instances
       from   ${jobSchedule} job
       where  job.name = $1`,
      [name],
    );
    if (!row) return { job: null, storedSchedule: null };
    const { cron, timeZone, calendar, paused, since, until, by, reason, ...job } = row;
    return {
      storedSchedule: { cron, timeZone, calendar },
      job: { ...job, paused: paused ? { since: since!, until, by, reason } : null },
    };
  }

  /** The row of its own before a gap that covers it. */
  private async row({ jobName, fireTime }: RunKey): Promise<ExplainedRow | null> {
    const { jobRuns, jobInstances } = this.database.tables;
    const [row] = await this.query<FoundRow>(
      `select fire_time as "fireTime", status, trigger, reason, claimed_by as "claimedBy", attempt, started_at as "startedAt", finished_at as "finishedAt",
              error, earlier_attempts as "earlierAttempts", lease_until as "leaseUntil", next_attempt_at as "nextAttemptAt",
              requested_by as "requestedBy", cancel_requested_at as "cancelRequestedAt", gap_from as "gapFrom", gap_count as "gapCount",
              left(checkpoint::text, ${SHOWN_OF_CHECKPOINT}) || case when length(checkpoint::text) > ${SHOWN_OF_CHECKPOINT} then '…' else '' end as checkpoint,
              pages as "pageCount",
              exists (select from ${jobInstances} owner where owner.id = claimed_by and owner.lifeline is not null) as "hasLifeline"
       from   ${jobRuns}
       where  job_name = $1
       and    fire_time = coalesce(
               (select own.fire_time from ${jobRuns} own where own.job_name = $1 and own.fire_time = $2),
               (select min(gap.fire_time) from ${jobRuns} gap where gap.job_name = $1 and gap.gap_from is not null and gap.gap_from <= $2 and gap.fire_time > $2))`,
      [jobName, fireTime.toISOString()],
    );
    if (!row) return null;
    const { gapFrom, gapCount, pageCount, ...rest } = row;
    const pages =
      pageCount === null
        ? null
        : await pageProgress(this.query, this.database.tables, { jobName, fireTime: row.fireTime });
    return { ...rest, pages, starts: startsOf(row), gap: gapFrom && { from: gapFrom, count: gapCount! } };
  }

  /**
   * A backfill leaves alone what has started, or waits, under a former name: what never ran there is this name's to
   * run.
   */
  private async elsewhere({ jobName, fireTime }: RunKey): Promise<string | null> {
    const { jobRuns, jobSchedule } = this.database.tables;
    const rows = await this.query<Pick<JobRun, 'status' | 'attempt'> & { name: string }>(
      `select former.name, run.status, run.attempt
       from   ${jobSchedule} former
       join   ${jobRuns} run on run.job_name = former.name
       where  former.yields_to = $1
       and    run.fire_time = $2
       order  by former.name`,
      [jobName, fireTime.toISOString()],
    );
    return rows.find((row) => standingOf(row) !== 'never ran')?.name ?? null;
  }

  /**
   * What was under way, or skipped, during an attempt of this run, or when it was skipped. Nothing begins before it is
   * due, so what came due later is none of it; nor is what had been due for days, unless it is still under way: to find
   * that, all of the job's history would have to be read.
   */
  private async others(
    { jobName, fireTime }: RunKey,
    { starts, status }: ExplainedRow,
  ): Promise<Pick<ExplanationFacts, 'beside' | 'skippedFor'>> {
    if (starts.length === 0 && status !== 'skipped') return { beside: [], skippedFor: [] };
    const { tables } = this.database;
    const { jobRuns } = tables;
    const rows = await this.query<{ fire_time: Date; skipped: boolean }>(
      `with own as materialized (
         select run.status, time.*
         from   ${jobRuns} run
         cross  join lateral ${timesOf('run', tables)} time
         where  run.job_name = $1
         and    run.fire_time = $2
       )
       select other.fire_time, other.status = 'skipped' as skipped
       from  (select *
              from   ${jobRuns}
              where  job_name = $1
              and    fire_time > (select min(began) from own) - interval '${DUE_BEFORE}'
              and    fire_time < (select max(ended) from own)
              union  all
              select *
              from   ${jobRuns}
              where  job_name = $1
              and    fire_time <= (select min(began) from own) - interval '${DUE_BEFORE}'
              and    status in ('running', 'fanned_out')) other
       where  other.fire_time <> $2
       and    exists (select 1
                      from   own
                      cross  join lateral ${timesOf('other', tables)} its
                      where  not (own.status = 'skipped' and other.status = 'skipped')
                      and    its.began < own.ended
                      and    its.ended > own.began)
       order  by other.fire_time
       limit  100`,
      [jobName, fireTime.toISOString()],
    );
    const of = (skipped: boolean) => rows.filter((row) => row.skipped === skipped).map(({ fire_time }) => fire_time);
    return { beside: of(false), skippedFor: of(true) };
  }

  private inDoubt({ jobName, fireTime }: RunKey): Promise<CallInDoubt[]> {
    const { receipts, jobRuns } = this.database.tables;
    return this.query<CallInDoubt>(
      `select receipt.entity, receipt.effect, receipt.attempt
       from   ${receipts} receipt
       left   join ${jobRuns} run on run.job_name = receipt.job_name and run.fire_time = receipt.fire_time
       where  receipt.job_name = $1
       and    receipt.fire_time = $2
       and    receipt.state in ('open', 'in_doubt')
       and    ${inDoubt(this.database.tables)}
       order  by receipt.opened_at, receipt.entity, receipt.effect
       limit  100`,
      [jobName, fireTime.toISOString()],
    );
  }

  /** By the policy that the job was declared with last: what may run beside the others has nothing in its way. */
  private async inTheWay({ jobName, fireTime }: RunKey): Promise<ExplanationFacts['inTheWay']> {
    const { jobRuns, jobSchedule } = this.database.tables;
    const [run] = await this.query<{ fireTime: Date; instanceId: string }>(
      `with busy as (
         select fire_time, claimed_by, beside, status
         from   ${jobRuns} run
         where  job_name = $1
         and    fire_time <> $2
         and    ${this.database.tables.qualify('run_is_under_way_1')}(run.status, run.lease_until)
       )
       select busy.fire_time as "fireTime", busy.claimed_by as "instanceId"
       from   busy
       join   ${jobSchedule} job on job.name = $1
       left   join ${jobRuns} own on own.job_name = $1 and own.fire_time = $2
       where  case
                when job.policies ->> 'overlap' = 'allow' then (select count(*) from busy where status = 'running') >= (job.policies ->> 'maxParallel')::integer
                else not busy.beside and own.beside is not true
              end
       order  by busy.fire_time
       limit  1`,
      [jobName, fireTime.toISOString()],
    );
    return run ?? null;
  }
}

interface PausedRow {
  paused: boolean;
  since: Date | null;
  until: Date | null;
  by: string | null;
  reason: string | null;
}

type FoundRow = Omit<ExplainedRow, 'starts' | 'gap' | 'pages'> &
  Pick<
    JobRun,
    'claimedBy' | 'attempt' | 'startedAt' | 'finishedAt' | 'error' | 'earlierAttempts' | 'gapFrom' | 'gapCount'
  > & { readonly pageCount: number | null };

/** Of a run that a backfill has begin again, all attempts are among the earlier ones until it is started. */
function startsOf({
  attempt,
  claimedBy,
  startedAt,
  finishedAt,
  status,
  error,
  reason,
  earlierAttempts,
}: FoundRow): ExplainedStart[] {
  // What somebody has spoilt is left out.
  const earlier = (Array.isArray(earlierAttempts) ? earlierAttempts : [])
    .filter((each) => typeof each?.startedAt === 'string' && !Number.isNaN(Date.parse(each.startedAt)))
    .map((each) => ({
      attempt: each.attempt,
      instanceId: each.claimedBy,
      startedAt: new Date(each.startedAt!),
      finishedAt: each.finishedAt === null ? null : new Date(each.finishedAt),
      status: each.status,
      error: each.error?.message ?? null,
      reason: each.reason ?? null,
    }));
  if (attempt === 0 || claimedBy === null) return earlier;
  return [
    ...earlier,
    {
      attempt,
      instanceId: claimedBy,
      startedAt,
      finishedAt: status === 'running' || status === 'fanned_out' ? null : finishedAt,
      status,
      error: error?.message ?? null,
      reason,
    },
  ];
}

/**
 * From when to when each attempt of a run was under way, infinity for one that still is; of a run that was skipped
 * since others were under way, the moment in which that was decided.
 * @param run SQL alias of `job_runs`
 */
function timesOf(run: string, tables: Tables): string {
  // One row that somebody has spoilt must not keep the others from being explained.
  const instant = (name: string) => `${tables.qualify('instant_or_null_1')}(earlier ->> '${name}')`;
  return `(select ${run}.started_at as began, case when ${run}.status in ('running', 'fanned_out') then 'infinity' else ${run}.finished_at end as ended
           where  ${run}.claimed_by is not null
           union  all
           select ${instant('startedAt')}, ${instant('finishedAt')}
           from   jsonb_array_elements(case jsonb_typeof(${run}.earlier_attempts) when 'array' then ${run}.earlier_attempts else '[]' end) earlier
           union  all
           select ${run}.finished_at, ${run}.finished_at + interval '1 microsecond'
           where  ${run}.status = 'skipped'
           and    ${run}.reason in ('overlap', 'overlap: the queue is full'))`;
}
