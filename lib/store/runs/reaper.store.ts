import type { ConcurrencyGroup, OverlapPolicy } from '../../domain/job-definition.js';
import type { RunKey, RunTrigger } from '../../domain/runs/run.js';
import { isOff } from '../jobs/flag-off.js';
import { isHeld } from '../jobs/held.js';
import { isRemoved, removedJobs } from '../jobs/is-removed.js';
import { mayEndSessionsOf } from '../connection/may-end-session.js';
import { inOnePreparedMessage } from '../connection/one-message.js';
import { queryOn, type Query } from '../connection/query.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import { reaperOutlook } from './reaper-outlook.js';
import type { WaitingRun } from './claim-candidates.js';
import { receiptLockKey } from '../receipts/receipt-lock.js';
import { backfillHasPlace, groupHasPlace, hasPlaceBeside, leavesTheWayFree, nothingInTheWay, precedence, runsAlone } from './waiting-rules.js';

/** What this instance knows about the jobs whose runs it may reap and start. */
export interface KnownJob {
  readonly name: string;
  readonly maxAttempts: number;
  readonly overlap: OverlapPolicy;
  readonly flag?: string | null;
  /** How many of its runs may go on at a time; null for no limit. */
  readonly parallel?: number | null;
  readonly concurrencyGroup?: ConcurrencyGroup | null;
}

/** What this instance knows about a job whose waiting runs it may start. */
export interface StartableJob extends KnownJob {
  /** When the job's next undecided occurrence may start: a backfill's run that it may not run beside gives way. */
  readonly nextDueAt?: Date | null;
  /** When a backlog last had a place of the job's concurrency group: what waits of it is behind whoever has waited since. */
  readonly backlogStartedAt?: Date | null;
}

/** A run that could start now. */
export interface StartableRun extends Pick<WaitingRun, 'jobName' | 'fireTime' | 'attempt'> {
  readonly trigger: RunTrigger;
  readonly beside: boolean;
  /** Since when it is in line. */
  readonly since: Date;
}

/** When the reaper has something to do next; null where nothing is open. */
export interface ReaperOutlook {
  readonly databaseNow: Date;
  readonly nextExpiry: Date | null;
  readonly nextAttempt: Date | null;
  /** Runs wait whose job was removed: see {@link ReaperStore.cancelRemoved}. */
  readonly removedWait: boolean;
  /** The lease of a run has ended whose job is not known here: see {@link JobInstanceStore.orphanRunsOf}. */
  readonly strays: boolean;
}

/** A run that waited, and whose job was removed. */
export interface CancelledRun extends RunKey {
  readonly attempt: number;
  readonly reason: string;
}

/** A run whose lease was over: claimable again, dead when its attempts are used up, or cancelled when somebody asked for that. */
export interface ReapedRun extends RunKey {
  readonly status: 'orphaned' | 'dead' | 'cancelled';
  readonly attempt: number;
  readonly claimedBy: string;
  readonly reason: string;
  /** How long the lease had been over, in milliseconds. */
  readonly overdueMs: number;
}

/**
 * Finds leases that ran out and runs that wait. Names only jobs this instance knows: an old version in a rolling deploy
 * leaves the runs of new jobs alone. Those that were removed are anybody's: nobody will know them again.
 */
export class ReaperStore {
  private readonly query: Query;

  constructor(private readonly database: SchedulerDatabase) {
    this.query = queryOn(database.coordination);
  }

  /** One cheap look; everything else is asked only when it says so. */
  async outlook(jobNames: readonly string[]): Promise<ReaperOutlook> {
    const { tables, coordination } = this.database;
    const [row] = await inOnePreparedMessage<{ now: Date; next_expiry: Date | null; next_attempt: Date | null; removed_wait: boolean; strays: boolean }>(coordination, [
      { name: 'outlook', sql: ([names]) => reaperOutlook(tables, names!), values: [jobNames] },
    ]);
    return { databaseNow: row!.now, nextExpiry: row!.next_expiry, nextAttempt: row!.next_attempt, removedWait: row!.removed_wait, strays: row!.strays };
  }

  /**
   * Ends the transactions in which attempts whose lease ran out still hold a receipt: their process is frozen or gone,
   * and what they would write is refused anyway.
   * @returns how many were ended
   */
  async endStaleReceipts(jobNames: readonly string[]): Promise<number> {
    const { tables } = this.database;
    const { jobRuns } = tables;
    const ended = await this.query(
      `with stale as materialized (
         select ${receiptLockKey(tables, 'job_name', 'fire_time', 'attempt')} as key
         from   ${jobRuns}
         where  status = 'running'
         and    lease_until <= clock_timestamp()
         and   (job_name = any ($1::text[]) or job_name in (${removedJobs(tables)}))
       )
       select pg_terminate_backend(held.pid)
       from   pg_locks held
       join   stale on stale.key = (held.classid::bigint << 32) | held.objid::bigint
       join   pg_stat_activity backend on backend.pid = held.pid and ${mayEndSessionsOf('backend.usesysid')}
       where  held.locktype = 'advisory'
       and    held.objsubid = 1
       and    held.granted
       and    held.database = (select oid from pg_database where datname = current_database())`,
      [jobNames],
    );
    return ended.length;
  }

  /**
   * Makes runs whose lease ran out claimable again at once, dead when their attempts are used up or their job was removed, or
   * cancelled. Status, attempt and lease are judged in the update itself, on the locked row: a completion or a heartbeat that came first wins.
   */
  async reap(jobs: readonly KnownJob[], limit: number): Promise<ReapedRun[]> {
    const { tables } = this.database;
    const { jobRuns } = tables;
    const rows = await this.query<{ job_name: string; fire_time: Date; status: ReapedRun['status']; attempt: number; claimed_by: string; reason: string; overdue_ms: number }>(
      `with known as (
         select *
         from   unnest($1::text[], $2::integer[]) as known (job_name, max_attempts)
       ),
       expired as (
         select run.job_name, run.fire_time, run.attempt,
                case
                  when run.cancel_requested_at is not null then 'cancelled'
                  when removed.name is not null or run.attempt - run.releases >= known.max_attempts then 'dead'
                  else 'orphaned'
                end as becomes,
                case when removed.name is not null then ', and its job was removed' else '' end as besides
         from   ${jobRuns} run
         left   join known on known.job_name = run.job_name
         left   join (${removedJobs(tables)}) removed on removed.name = run.job_name
         where (known.job_name is not null or removed.name is not null)
         and    run.status = 'running'
         and    run.lease_until <= clock_timestamp()
         order  by run.job_name, run.fire_time
         limit  $3
         for    update of run skip locked
       )
       update ${jobRuns} run
       set    status = expired.becomes,
              reason = case when expired.becomes = 'cancelled' then run.cancel_reason || '; ' else '' end || coalesce(run.reason, 'the lease of ' || run.claimed_by || ' ran out') || expired.besides,
              error = jsonb_build_object(
                'name', 'LeaseExpired',
                'message', case when run.reason is null then 'The lease of ' || run.claimed_by || ' ran out: its process died, was frozen, or lost the database, or it took longer than its maxRunTime.'
                           else 'The lifeline of ' || run.claimed_by || ' was gone: its process died, stood still, or lost the database.' end,
                'stack', null),
              finished_at = clock_timestamp(),
              next_attempt_at = case when expired.becomes = 'orphaned' then clock_timestamp() end
       from   expired
       where  run.job_name = expired.job_name
       and    run.fire_time = expired.fire_time
       and    run.status = 'running'
       and    run.attempt = expired.attempt
       and    run.lease_until <= clock_timestamp()
       returning run.job_name, run.fire_time, run.status, run.attempt, run.claimed_by, run.reason,
                 extract(epoch from clock_timestamp() - run.lease_until)::float8 * 1000 as overdue_ms`,
      [jobs.map(({ name }) => name), jobs.map(({ maxAttempts }) => maxAttempts), limit],
    );
    return rows.map((row) => ({
      jobName: row.job_name,
      fireTime: row.fire_time,
      status: row.status,
      attempt: row.attempt,
      claimedBy: row.claimed_by,
      reason: row.reason,
      overdueMs: row.overdue_ms,
    }));
  }

  /** Ends what waits of jobs that were removed: no attempt follows, whatever wrote the row meanwhile. */
  async cancelRemoved(limit: number): Promise<CancelledRun[]> {
    const { tables } = this.database;
    return this.query(
      `with waiting as (
         select run.job_name, run.fire_time
         from   ${tables.jobRuns} run
         where  run.status in ('queued', 'failed', 'orphaned')
         and    run.job_name in (${removedJobs(tables)})
         order  by run.job_name, run.fire_time
         limit  $1
         for    update of run skip locked
       )
       update ${tables.jobRuns} run
       set    status = 'cancelled',
              reason = 'its job was removed',
              finished_at = clock_timestamp(),
              next_attempt_at = null
       from   waiting
       where  run.job_name = waiting.job_name
       and    run.fire_time = waiting.fire_time
       and    run.status in ('queued', 'failed', 'orphaned')
       returning run.job_name as "jobName", run.fire_time as "fireTime", run.attempt, run.reason`,
      [limit],
    );
  }

  /**
   * Runs that could start now: their attempt is due, their job is not held, and where overlap is forbidden it is their turn
   * and nothing of the job runs. Live ones first, then what is caught up, then backfills; of those, the longest waiting. The
   * places of a concurrency group go to whoever has waited longest.
   * What can't start is left out, or a long backlog of one job would take the places of all others. A look only: the claim
   * judges again.
   * @param slotNeededAt when an occurrence of any job needs the slot that is given now; null where others are kept for it
   */
  async waiting(jobs: readonly StartableJob[], limit: number, slotNeededAt: Date | null = null): Promise<StartableRun[]> {
    const { tables } = this.database;
    const { jobRuns, jobSchedule, jobFlags } = tables;
    return this.query(
      `select waiting.job_name as "jobName", waiting.fire_time as "fireTime", waiting.attempt, waiting.trigger, waiting.beside,
              waiting.since
       from  (select ready.*, row_number() over (partition by ready.concurrency_group order by ready.since, ready.precedence, ready.fire_time) as group_turn
       from  (select run.job_name, run.fire_time, run.attempt, run.next_attempt_at, run.trigger, run.beside, run.backfill_id, known.overlap, known.parallel, known.concurrency_group, known.group_limit,
                     kind.*,
                     case when kind.precedence > 0 then greatest(run.next_attempt_at, known.backlog_started_at) else run.next_attempt_at end as since,
                     least(case when kind.alone and known.overlap <> 'allow' then known.next_due_at end, $4::timestamptz) as place_needed_at,
                     row_number() over (partition by run.job_name, kind.alone order by kind.precedence, run.fire_time) as turn,
                     row_number() over (partition by run.backfill_id order by run.fire_time) as backfill_turn
              from   ${jobRuns} run
              join   unnest($1::text[], $2::text[], $5::timestamptz[], $6::text[], $7::integer[], $8::text[], $9::integer[], $10::timestamptz[])
                       as known (job_name, overlap, next_due_at, flag, parallel, concurrency_group, group_limit, backlog_started_at) on known.job_name = run.job_name
              cross  join lateral (select ${precedence('run')} as precedence, ${runsAlone('run', 'known.overlap', 'known.parallel')} as alone) kind
              where  run.status in ('queued', 'failed', 'orphaned')
              and    run.next_attempt_at <= clock_timestamp()
              and    run.fire_time <= clock_timestamp()
              and    not ${isRemoved(tables, 'run.job_name')}
              and    not ${isHeld(jobSchedule, 'run.job_name')}
              and    not ${isOff(jobFlags, 'known.flag')}) ready
       where (not ready.alone or ready.turn = 1 and ${nothingInTheWay(tables, 'ready.job_name')})
       and    ${hasPlaceBeside(tables, 'ready')}
       and    ${backfillHasPlace(tables, 'ready')}
       and    ${leavesTheWayFree(tables, 'ready', 'ready.place_needed_at')}) waiting
       where  ${groupHasPlace(tables, 'waiting')}
       order  by waiting.precedence, waiting.next_attempt_at, waiting.fire_time
       limit  $3`,
      [
        jobs.map(({ name }) => name),
        jobs.map(({ overlap }) => overlap),
        limit,
        slotNeededAt?.toISOString() ?? null,
        jobs.map(({ nextDueAt }) => nextDueAt?.toISOString() ?? null),
        jobs.map(({ flag }) => flag ?? null),
        jobs.map(({ parallel }) => parallel ?? null),
        jobs.map(({ concurrencyGroup }) => concurrencyGroup?.name ?? null),
        jobs.map(({ concurrencyGroup }) => concurrencyGroup?.limit ?? null),
        jobs.map(({ backlogStartedAt }) => backlogStartedAt?.toISOString() ?? null),
      ],
    );
  }
}
