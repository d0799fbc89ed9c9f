import type { ConcurrencyGroup, OverlapPolicy } from '../options/job-definition.js';
import type { RunKey, RunTrigger } from '../options/run.js';
import { sparse } from './claim.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import type { WaitingRun } from './claim.js';

/** More are found at the next pass. */
const MOST_ORPHANS = 1_000;

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
  /**
   * When a backlog last had a place of the job's concurrency group: what waits of it is behind whoever has waited
   * since.
   */
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
  /** The lease of a run has ended whose job is not known here: see {@link ReaperStore.orphanRunsOf}. */
  readonly strays: boolean;
}

/** A run that waited, and whose job was removed. */
export interface CancelledRun extends RunKey {
  readonly attempt: number;
  readonly reason: string;
}

/**
 * A run whose lease was over: claimable again, dead when its attempts are used up, or cancelled when somebody asked for
 * that.
 */
export interface ReapedRun extends RunKey {
  readonly status: 'orphaned' | 'dead' | 'cancelled';
  readonly attempt: number;
  readonly claimedBy: string;
  readonly reason: string;
  /** How long the lease had been over, in milliseconds. */
  readonly overdueMs: number;
}

/** A run that the database did not let be written, and why: it is as it was. */
export interface RefusedRun extends RunKey {
  readonly problem: string;
}

/**
 * Finds leases that ran out and runs that wait. Names only jobs this instance knows: an old version in a rolling deploy
 * leaves the runs of new jobs alone. Those that were removed are anybody's: nobody will know them again.
 */
export class ReaperStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /**
   * One cheap look; everything else is asked only when it says so.
   * @param resting runs whose leases do not count: they were refused
   */
  async outlook(jobNames: readonly string[], resting: readonly RunKey[] = []): Promise<ReaperOutlook> {
    const [row] = await this.database.call<{
      now: Date;
      next_expiry: Date | null;
      next_attempt: Date | null;
      removed_wait: boolean;
      strays: boolean;
    }>('job_run_outlook_1', [jobNames, ...columnsOf(resting)]);
    return {
      databaseNow: row!.now,
      nextExpiry: row!.next_expiry,
      nextAttempt: row!.next_attempt,
      removedWait: row!.removed_wait,
      strays: row!.strays,
    };
  }

  /**
   * Makes runs whose lease ran out claimable again at once, dead when their attempts are used up or their job was
   * removed, or cancelled. The transactions in which they still hold a receipt are ended: their process is frozen or
   * gone.
   * @param resting left out, and in nobody's place
   */
  reap(
    jobs: readonly KnownJob[],
    limit: number,
    refused?: (run: RefusedRun) => void,
    resting: readonly RunKey[] = [],
  ): Promise<ReapedRun[]> {
    return this.reapThose(jobs, null, limit, resting, refused);
  }

  /**
   * The same for runs whose jobs nobody knows who could start them: their rows say what happened, and whoever knows the
   * job again goes on with them. Besides those named, any run that nobody has reaped for a minute: of a former name
   * that no code remembers, or of a job without a row.
   */
  orphanRunsOf(
    names: readonly string[],
    refused?: (run: RefusedRun) => void,
    resting: readonly RunKey[] = [],
  ): Promise<ReapedRun[]> {
    return this.reapThose([], names, MOST_ORPHANS, resting, refused);
  }

  private async reapThose(
    jobs: readonly KnownJob[],
    unknown: readonly string[] | null,
    limit: number,
    resting: readonly RunKey[],
    refused?: (run: RefusedRun) => void,
  ): Promise<ReapedRun[]> {
    const values = [
      jobs.map(({ name }) => name),
      jobs.map(({ maxAttempts }) => maxAttempts),
      unknown,
      limit,
      ...columnsOf(resting),
    ];
    return accepted(await this.database.call<ReapedRow>('job_run_reap_1', values), refused).map((row) => ({
      jobName: row.job_name,
      fireTime: row.fire_time,
      status: row.status,
      attempt: row.attempt,
      claimedBy: row.claimed_by,
      reason: row.reason,
      overdueMs: row.overdue_ms,
    }));
  }

  /**
   * Ends what waits of jobs that were removed: no attempt follows, whatever wrote the row meanwhile.
   * @param resting left out, and in nobody's place
   */
  async cancelRemoved(
    limit: number,
    refused?: (run: RefusedRun) => void,
    resting: readonly RunKey[] = [],
  ): Promise<CancelledRun[]> {
    const values = [limit, ...columnsOf(resting)];
    const rows = accepted(await this.database.call<CancelledRow>('job_run_cancel_removed_1', values), refused);
    return rows.map(({ job_name, fire_time, attempt, reason }) => ({
      jobName: job_name,
      fireTime: fire_time,
      attempt,
      reason,
    }));
  }

  /**
   * Runs that could start now, those first that are to be started first. A look only: the claim judges again.
   * @param slotNeededAt when an occurrence of any job needs the slot that is given now; null where others are kept for
   * it
   */
  async waiting(
    jobs: readonly StartableJob[],
    limit: number,
    slotNeededAt: Date | null = null,
  ): Promise<StartableRun[]> {
    const given = jobs.map(({ name, overlap, flag, parallel, concurrencyGroup, nextDueAt, backlogStartedAt }) =>
      sparse({
        name,
        overlap,
        flag,
        parallel,
        nextDueAt,
        backlogStartedAt,
        group: concurrencyGroup?.name,
        groupLimit: concurrencyGroup?.limit,
      }),
    );
    const rows = await this.database.call<WaitingRow>('job_run_waiting_1', [
      JSON.stringify(given),
      limit,
      slotNeededAt?.toISOString() ?? null,
    ]);
    return rows.map(({ job_name, fire_time, ...run }) => ({ jobName: job_name, fireTime: fire_time, ...run }));
  }
}

function columnsOf(runs: readonly RunKey[]): string[][] {
  return [runs.map(({ jobName }) => jobName), runs.map(({ fireTime }) => fireTime.toISOString())];
}

/** Tells of the rows that the database refused, and leaves them out. */
function accepted<Row extends RefusableRow>(
  rows: readonly Row[],
  refused: (run: RefusedRun) => void = () => {},
): Row[] {
  for (const { job_name, fire_time, problem } of rows)
    if (problem !== null) refused({ jobName: job_name, fireTime: fire_time, problem });
  return rows.filter(({ problem }) => problem === null);
}

interface RefusableRow {
  job_name: string;
  fire_time: Date;
  problem: string | null;
}

interface CancelledRow extends RefusableRow {
  attempt: number;
  reason: string;
}

interface ReapedRow extends RefusableRow {
  status: ReapedRun['status'];
  attempt: number;
  claimed_by: string;
  reason: string;
  overdue_ms: number;
}

interface WaitingRow {
  job_name: string;
  fire_time: Date;
  attempt: number;
  trigger: RunTrigger;
  beside: boolean;
  since: Date;
}
