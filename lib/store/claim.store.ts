import type { OverlapPolicy } from '../domain/job-definition.js';
import type { RunKey, RunTrigger } from '../domain/run.js';
import { isHeld } from './held.js';
import { inOneMessage } from './one-message.js';
import type { PartitionStore } from './partition.store.js';
import type { SchedulerDatabase } from './scheduler-database.js';

/** An occurrence somebody should claim. */
export interface DueOccurrence extends RunKey {
  /** The fire time plus the job's jitter: nobody may start it earlier. */
  readonly startsAt: Date;
  readonly overlap: OverlapPolicy;
  readonly leaseMs: number;
}

/** A run that waits for its next attempt, as it was seen. */
export interface WaitingRun extends RunKey {
  readonly attempt: number;
  readonly overlap: OverlapPolicy;
  readonly leaseMs: number;
}

/** What the database said to one candidate. */
export type ClaimVerdict =
  /** It is ours: `attempt` and `leaseUntil` are set. */
  | 'claimed'
  /** It has a row that says why it does not run: `reason` is set. */
  | 'skipped'
  /** Somebody else decided it. */
  | 'taken'
  /** By the database's clock it is not due yet. */
  | 'early'
  /** It is late, and a run of its job that began after it was due is in the way: to be tried again. */
  | 'waiting';

/** What became of one candidate. What its verdict does not set is null. */
export interface ClaimAnswer extends RunKey {
  readonly verdict: ClaimVerdict;
  readonly reason: string | null;
  readonly attempt: number | null;
  readonly releases: number | null;
  readonly trigger: RunTrigger | null;
  readonly leaseUntil: Date | null;
}

/** The answers to one batch, and the database's clock when it gave them. */
export interface ClaimAnswers {
  readonly databaseNow: Date;
  readonly answers: ClaimAnswer[];
}

/**
 * The statements that turn an occurrence into a run of one instance.
 *
 * A rule about *other* runs of the job (overlap) can't be judged in the statement that inserts: under read committed it
 * sees the rows from before it began, so two replicas with two fire times of one job would each see none. Therefore a
 * claim first takes the locks of its jobs and then looks, in a second statement of the same transaction. Where overlap is
 * allowed the unique key alone would do; but of two inserts at the same moment the loser's would be written and undone.
 */
export class ClaimStore {
  constructor(
    private readonly database: SchedulerDatabase,
    private readonly partitions: PartitionStore,
  ) {}

  /** Claims what is due and free, in one batch and one round trip. Losers write nothing. */
  async claimDue(due: readonly DueOccurrence[], instanceId: string): Promise<ClaimAnswers> {
    const sorted = [...due].sort(byKey);
    return this.partitions.makingSure(
      () => sorted.map(({ fireTime }) => fireTime),
      () => this.claim(sorted, (candidates, instance) => this.insertDue(candidates, instance), instanceId),
    );
  }

  /** Claims runs that wait for their next attempt. At most one of a job that forbids overlap, and none beside a running one. */
  async claimWaiting(waiting: readonly WaitingRun[], instanceId: string): Promise<ClaimAnswers> {
    return this.claim([...waiting].sort(byKey), (candidates, instance) => this.startWaiting(candidates, instance), instanceId);
  }

  /** @param statement the claim itself, given its candidates and the instance as JSON literals */
  private async claim(
    candidates: readonly (DueOccurrence | WaitingRun)[],
    statement: (candidates: string, instanceId: string) => string,
    instanceId: string,
  ): Promise<ClaimAnswers> {
    const jobs = [...new Set(candidates.map(({ jobName }) => jobName))];
    const rows = await inOneMessage<ClaimRow>(this.database.coordination, (json) => [
      this.lockJobs(json(jobs)),
      statement(json(candidates), json(instanceId)),
    ]);
    return answers(rows);
  }

  /** In the order of the names: two replicas that lock the same jobs in different orders would wait for each other. */
  private lockJobs(names: string): string {
    const prefix = `nestjs-distributed-cron:job:${this.database.tables.schema}:`.replaceAll("'", "''");
    return `
       select pg_advisory_xact_lock(hashtextextended('${prefix}' || name, 0))
       from   jsonb_array_elements_text(${names}) with ordinality as job (name, position)
       order  by position`;
  }

  private insertDue(candidates: string, instanceId: string): string {
    const { jobRuns, jobSchedule } = this.database.tables;
    return `
       with clock as materialized (
         select clock_timestamp() as now
       ),
       candidate as materialized (
         select due.job_name, due.fire_time, due.starts_at, due.overlap, due.lease_ms, clock.now,
                run.job_name is not null as taken,
                due.starts_at > clock.now as early,
                not coalesce(schedule.enabled, true) as disabled,
                schedule.paused_at is not null
                  and (schedule.paused_until is null or schedule.paused_until > clock.now) as paused,
                (select min(other.started_at)
                 from   ${jobRuns} other
                 where  due.overlap = 'forbid'
                 and    other.job_name = due.job_name
                 and    other.status = 'running'
                 and    other.lease_until > clock.now) as busy_since
         from   ${recordset(candidates, 'due')}
         cross  join clock
         left   join ${jobSchedule} schedule on schedule.name = due.job_name
         left   join ${jobRuns} run on run.job_name = due.job_name and run.fire_time = due.fire_time
       ),
       judged as (
         select candidate.*,
                case
                  when taken then 'taken'
                  when early then 'early'
                  when disabled or paused or busy_since <= starts_at then 'skipped'
                  when busy_since is not null then 'waiting'
                  when overlap = 'forbid' and 1 < row_number() over (
                    partition by job_name, taken or early order by fire_time) then 'waiting'
                  else 'claimed'
                end as verdict,
                case when disabled then 'disabled' when paused then 'paused' when busy_since <= starts_at then 'overlap' end as reason
         from   candidate
       ),
       inserted as (
         insert into ${jobRuns}
                (job_name, fire_time, status, trigger, reason, claimed_by, attempt, started_at, lease_until, finished_at)
         select job_name, fire_time, 'skipped', 'schedule', reason, null, 0, null, null, now
         from   judged
         where  verdict = 'skipped'
         union  all
         select job_name, fire_time, 'running', 'schedule', null, ${instanceId} #>> '{}', 1, now, now + lease_ms * interval '1 millisecond', null
         from   judged
         where  verdict = 'claimed'
         order  by 1, 2
         on conflict (job_name, fire_time) do nothing
         returning job_name, fire_time, attempt, releases, trigger, lease_until
       )
       select judged.job_name, judged.fire_time, judged.now, inserted.attempt, inserted.releases, inserted.trigger, inserted.lease_until,
              judged.reason,
              case
                when judged.verdict in ('claimed', 'skipped') and inserted.job_name is null then 'taken'
                else judged.verdict
              end as verdict
       from   judged
       left   join inserted on inserted.job_name = judged.job_name and inserted.fire_time = judged.fire_time
       order  by judged.job_name, judged.fire_time`;
  }

  private startWaiting(candidates: string, instanceId: string): string {
    const { jobRuns, jobSchedule } = this.database.tables;
    return `
       update ${jobRuns} run
       set    status = 'running',
              reason = null,
              attempt = run.attempt + 1,
              claimed_by = ${instanceId} #>> '{}',
              started_at = clock_timestamp(),
              finished_at = null,
              lease_until = clock_timestamp() + candidate.lease_ms * interval '1 millisecond',
              next_attempt_at = null,
              error = null,
              earlier_attempts = case when run.attempt = 0 then run.earlier_attempts else run.earlier_attempts || jsonb_build_object(
                'attempt', run.attempt,
                'claimedBy', run.claimed_by,
                'startedAt', run.started_at,
                'finishedAt', run.finished_at,
                'status', run.status,
                'error', run.error) end
       from  (select waiting.*,
                     row_number() over (partition by waiting.job_name order by waiting.fire_time) as turn
              from   ${recordset(candidates, 'waiting')}) candidate
       where  run.job_name = candidate.job_name
       and    run.fire_time = candidate.fire_time
       and    (candidate.overlap = 'allow' or candidate.turn = 1 and not exists (
                select from ${jobRuns} other
                where  other.job_name = candidate.job_name
                and    other.status = 'running'
                and    other.lease_until > clock_timestamp()))
       and    run.status in ('queued', 'failed', 'orphaned')
       and    run.next_attempt_at <= clock_timestamp()
       and    run.fire_time <= clock_timestamp()
       and    run.attempt = candidate.attempt
       and    not ${isHeld(jobSchedule, 'candidate.job_name')}
       returning run.job_name, run.fire_time, run.attempt, run.releases, run.trigger, run.lease_until,
                 null as reason, 'claimed' as verdict, clock_timestamp() as now`;
  }
}

/** The candidates as a table: property by property, as they are named in TypeScript. */
function recordset(candidates: string, alias: string): string {
  return `(select "jobName" as job_name, "fireTime" as fire_time, "startsAt" as starts_at, attempt, overlap, "leaseMs" as lease_ms
           from   jsonb_to_recordset(${candidates})
                    as given ("jobName" text, "fireTime" timestamptz, "startsAt" timestamptz, attempt integer, overlap text, "leaseMs" integer)) ${alias}`;
}

interface ClaimRow {
  job_name: string;
  fire_time: Date;
  verdict: ClaimVerdict;
  reason: string | null;
  attempt: number | null;
  releases: number | null;
  trigger: RunTrigger | null;
  lease_until: Date | null;
  now: Date;
}

function answers(rows: readonly ClaimRow[]): ClaimAnswers {
  return {
    databaseNow: rows[0]?.now ?? new Date(NaN),
    answers: rows.map((row) => ({
      jobName: row.job_name,
      fireTime: row.fire_time,
      verdict: row.verdict,
      reason: row.reason,
      attempt: row.attempt,
      releases: row.releases,
      trigger: row.trigger,
      leaseUntil: row.lease_until,
    })),
  };
}

/** Rows are written in the order of their key, so that two batches never wait for each other crosswise. */
function byKey(a: RunKey, b: RunKey): number {
  if (a.jobName !== b.jobName) return a.jobName < b.jobName ? -1 : 1;
  return a.fireTime.getTime() - b.fireTime.getTime();
}
