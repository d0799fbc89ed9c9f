import type { OwnedRun, RunKey, RunStatus } from '../../domain/runs/run.js';
import type { StoredError } from '../../domain/runs/stored-error.js';
import { fenceOf, IS_OURS } from './fence.js';
import { queryOn, type Query } from '../connection/query.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import { wakingUp } from '../wake-up.js';

/** How a run's attempt ended, when it did not complete. */
export interface Ending {
  readonly status: Extract<RunStatus, 'failed' | 'dead' | 'queued' | 'cancelled'>;
  /** For people; null when the error says it all. */
  readonly reason: string | null;
  readonly error: StoredError | null;
  /** Milliseconds from now to the next attempt; null when there is none. */
  readonly retryInMs: number | null;
  /** 1 when the attempt was handed back and does not count. */
  readonly releases: 0 | 1;
}

/** How an attempt ended, as the database has it. */
export interface WrittenEnd {
  readonly status: RunStatus;
  readonly reason: string | null;
  /** Of a run that was fanned out: how many pages it has. */
  readonly pages?: number | null;
  /** Of a run whose pages had all ended, and some of them dead. */
  readonly error?: StoredError | null;
}

/** An attempt that a claim may have begun, if the database has carried out what it never answered. */
export interface UnheardClaim extends RunKey {
  readonly attempt: number;
}

/**
 * The writes that end an attempt. Each names the attempt and asks for a lease that still holds: who was frozen past it,
 * or was reaped, changes nothing and is told so.
 */
export class JobRunStore {
  private readonly query: Query;

  constructor(private readonly database: SchedulerDatabase) {
    this.query = queryOn(database.coordination);
  }

  /** @returns null when the run is no longer ours */
  async complete(run: OwnedRun): Promise<WrittenEnd | null> {
    const [completed] = await this.query<WrittenEnd>(
      `update ${this.database.tables.jobRuns}
       set    status = 'done',
              finished_at = clock_timestamp()
       where  ${IS_OURS}
       returning status, reason`,
      fenceOf(run),
    );
    return completed ?? null;
  }

  /**
   * Ends an attempt. One that was to be cancelled, and has ended otherwise before it heard of that, is cancelled: it would
   * start again. What is handed back wakes the others up.
   * @returns null when the run is no longer ours
   */
  async end(run: OwnedRun, ending: Ending): Promise<WrittenEnd | null> {
    const [ended] = await this.query<WrittenEnd>(
      `update ${this.database.tables.jobRuns}
       set    status = case when cancel_requested_at is null then $5::text else 'cancelled' end,
              reason = case when cancel_requested_at is null then $6::text else coalesce(cancel_reason, $6::text) end,
              error = $7,
              finished_at = clock_timestamp(),
              next_attempt_at = case when cancel_requested_at is null then clock_timestamp() + $8 * interval '1 millisecond' end,
              releases = releases + $9
       where  ${IS_OURS}
       returning status, reason, case when status = 'queued' then ${wakingUp(this.database.tables, 'runs')} end`,
      [...fenceOf(run), ending.status, ending.reason, ending.error && JSON.stringify(ending.error), ending.retryInMs, ending.releases],
    );
    return ended ? { status: ended.status, reason: ended.reason } : null;
  }

  /** How this very attempt has ended; null when it has not. A write whose answer was lost may have been accepted. */
  async endOf(run: OwnedRun): Promise<WrittenEnd | null> {
    const [ended] = await this.query<WrittenEnd>(
      `select status, reason, pages, error
       from   ${this.database.tables.jobRuns}
       where  job_name = $1
       and    fire_time = $2
       and    status in ('done', 'fanned_out', 'failed', 'dead', 'queued', 'cancelled')
       and    attempt = $3
       and    claimed_by = $4`,
      fenceOf(run),
    );
    return ended ?? null;
  }

  /**
   * Hands back attempts that were claimed for this instance, and that it never heard of: they have not begun, so they don't
   * count. What somebody else has made of them stays.
   * @returns those that were
   */
  async handBack(claims: readonly UnheardClaim[], instanceId: string): Promise<UnheardClaim[]> {
    const rows = await this.query<UnheardClaim>(
      `update ${this.database.tables.jobRuns} run
       set    status = case when run.cancel_requested_at is null then 'queued' else 'cancelled' end,
              reason = case when run.cancel_requested_at is null then 'handed back: the answer to its claim was lost' else run.cancel_reason end,
              finished_at = clock_timestamp(),
              next_attempt_at = case when run.cancel_requested_at is null then clock_timestamp() end,
              releases = run.releases + 1
       from   unnest($1::text[], $2::timestamptz[], $3::integer[]) as unheard (job_name, fire_time, attempt)
       where  run.job_name = unheard.job_name
       and    run.fire_time = unheard.fire_time
       and    run.status = 'running'
       and    run.attempt = unheard.attempt
       and    run.claimed_by = $4
       returning run.job_name as "jobName", run.fire_time as "fireTime", run.attempt, ${wakingUp(this.database.tables, 'runs')}`,
      [claims.map(({ jobName }) => jobName), claims.map(({ fireTime }) => fireTime.toISOString()), claims.map(({ attempt }) => attempt), instanceId],
    );
    return rows.map(({ jobName, fireTime, attempt }) => ({ jobName, fireTime, attempt }));
  }
}
