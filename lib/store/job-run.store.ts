import type { OwnedRun, RunStatus } from '../domain/run.js';
import type { StoredError } from '../domain/stored-error.js';
import { fenceOf } from './fence.js';
import { queryOn, type Query } from './query.js';
import type { SchedulerDatabase } from './scheduler-database.js';

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

/**
 * The writes that end an attempt. Each names the attempt and asks for a lease that still holds: who was frozen past it,
 * or was reaped, changes nothing and is told `false`.
 */
export class JobRunStore {
  private readonly query: Query;

  constructor(private readonly database: SchedulerDatabase) {
    this.query = queryOn(database.coordination);
  }

  /** @returns false when the run is no longer ours */
  async complete(run: OwnedRun): Promise<boolean> {
    const completed = await this.query(
      `update ${this.database.tables.jobRuns}
       set    status = 'done',
              finished_at = clock_timestamp()
       where  job_name = $1
       and    fire_time = $2
       and    status = 'running'
       and    attempt = $3
       and    claimed_by = $4
       and    lease_until > clock_timestamp()
       returning 1`,
      fenceOf(run),
    );
    return completed.length === 1;
  }

  /**
   * A run that would be tried again, and that somebody asked to cancel meanwhile, ends as cancelled.
   * @returns false when the run is no longer ours
   */
  async end(run: OwnedRun, ending: Ending): Promise<boolean> {
    const ended = await this.query(
      `update ${this.database.tables.jobRuns}
       set    status = case when cancel_requested_at is not null and $8::float8 is not null then 'cancelled' else $5 end,
              reason = case when cancel_requested_at is not null and $8::float8 is not null then cancel_reason else $6 end,
              error = $7,
              finished_at = clock_timestamp(),
              next_attempt_at = case when cancel_requested_at is null then clock_timestamp() + $8 * interval '1 millisecond' end,
              releases = releases + $9
       where  job_name = $1
       and    fire_time = $2
       and    status = 'running'
       and    attempt = $3
       and    claimed_by = $4
       and    lease_until > clock_timestamp()
       returning 1`,
      [...fenceOf(run), ending.status, ending.reason, ending.error && JSON.stringify(ending.error), ending.retryInMs, ending.releases],
    );
    return ended.length === 1;
  }

  /** Whether this very attempt has ended so: a write whose answer was lost may have been accepted. */
  async hasEnded(run: OwnedRun, status: RunStatus): Promise<boolean> {
    const ended = await this.query(
      `select
       from   ${this.database.tables.jobRuns}
       where  job_name = $1
       and    fire_time = $2
       and    status = $5
       and    attempt = $3
       and    claimed_by = $4`,
      [...fenceOf(run), status],
    );
    return ended.length === 1;
  }
}
