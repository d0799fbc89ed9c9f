import type { OwnedRun, RunKey, RunStatus } from '../../domain/runs/run.js';
import type { StoredError } from '../../domain/runs/stored-error.js';
import { fenceOf } from './fence.js';
import { writeEnds } from './run-ends.store.js';
import { queryOn, type Query } from '../connection/query.js';
import type { SchedulerDatabase } from '../scheduler-database.js';

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
  /** The number of that claim. */
  readonly claim: number;
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
  complete(run: OwnedRun): Promise<WrittenEnd | null> {
    return this.write(run, null);
  }

  /**
   * Ends an attempt. One that was to be cancelled, and has ended otherwise before it heard of that, is cancelled: it would
   * start again. What is handed back wakes the others up.
   * @returns null when the run is no longer ours
   */
  end(run: OwnedRun, ending: Ending): Promise<WrittenEnd | null> {
    return this.write(run, ending);
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
   * count. What somebody else has made of them stays, and what a later claim of this instance has begun.
   * @returns those that were
   */
  async handBack(claims: readonly UnheardClaim[], instanceId: string): Promise<UnheardClaim[]> {
    const rows = await this.database.call<{ job_name: string; fire_time: Date; attempt: number; claim: number }>('job_run_hand_back_1', [
      claims.map(({ jobName }) => jobName),
      claims.map(({ fireTime }) => fireTime.toISOString()),
      claims.map(({ attempt }) => attempt),
      claims.map(({ claim }) => claim),
      instanceId,
    ]);
    return rows.map(({ job_name, fire_time, attempt, claim }) => ({ jobName: job_name, fireTime: fire_time, attempt, claim }));
  }

  private async write(run: OwnedRun, ending: Ending | null): Promise<WrittenEnd | null> {
    const [answer] = await writeEnds(this.database, [{ run, ending }], true);
    return answer!.kind === 'written' ? answer!.end : null;
  }
}
