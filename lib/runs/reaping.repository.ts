import { Repository } from 'typeorm';
import type { ConcurrencyGroup, JobDefinition } from '../options/job-definition.js';
import type { RunKey, RunTrigger } from '../options/run.js';
import { sparse } from './claim.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import type { WaitingRun } from './claim.js';
import { JobRun } from './job-run.entity.js';
import { attemptColumns, keyColumns } from './job-run.repository.js';

/** More are found at the next pass. */
const MOST_ORPHANS = 1_000;

/** What this instance knows about a job whose runs it may reap and start. */
export interface StartableJob extends Pick<JobDefinition, 'name' | 'maxAttempts' | 'overlap'> {
  readonly flag?: string | null;
  /** How many of its runs may go on at a time; null for no limit. */
  readonly parallel?: number | null;
  readonly concurrencyGroup?: ConcurrencyGroup | null;
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
  /** By the database's clock. */
  readonly now: Date;
  readonly nextExpiry: Date | null;
  readonly nextAttempt: Date | null;
  /** Runs wait whose job was removed: see {@link ReapingRepository.cancelRemoved}. */
  readonly removedWait: boolean;
  /** The lease of a run has ended whose job is not known here: see {@link ReapingRepository.orphanRunsOf}. */
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

/** More are found at the next look. */
const MOST_AT_A_LOOK = 1_000;

/** A run whose owner's liveness lock is not there. */
export interface GoneRun extends RunKey {
  readonly attempt: number;
  readonly instanceId: string;
  /** The key of the lock that nobody holds. */
  readonly lifeline: string;
}

/** What one look at the others has found. */
export interface OthersSeen {
  /** Runs of other instances are under way. */
  readonly run: boolean;
  /** Those whose owner says that it holds a lock, and does not. */
  readonly gone: readonly GoneRun[];
}

/** An attempt whose lease was cut short. */
export interface CutRun extends RunKey {
  readonly attempt: number;
  readonly claimedBy: string;
}

/**
 * Finds leases that ran out and runs that wait. Names only jobs this instance knows: an old version in a rolling deploy
 * leaves the runs of new jobs alone. Those that were removed are anybody's: nobody will know them again.
 */
export class ReapingRepository extends Repository<JobRun> {
  constructor(private readonly database: SchedulerDatabase) {
    super(JobRun, database.coordination.manager);
  }

  /**
   * One cheap look; everything else is asked only when it says so.
   * @param resting runs whose leases do not count: they were refused
   */
  async outlook(jobNames: readonly string[], resting: readonly RunKey[] = []): Promise<ReaperOutlook> {
    const [row] = await this.database.rows<ReaperOutlook>('job_run_outlook_1', [jobNames, ...keyColumns(resting)]);
    return row!;
  }

  /**
   * Makes runs whose lease ran out claimable again at once, dead when their attempts are used up or their job was
   * removed, or cancelled. The transactions in which they still hold a receipt are ended: their process is frozen or
   * gone.
   * @param resting left out, and in nobody's place
   */
  reap(
    jobs: readonly StartableJob[],
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
    jobs: readonly StartableJob[],
    unknown: readonly string[] | null,
    limit: number,
    resting: readonly RunKey[],
    refused?: (run: RefusedRun) => void,
  ): Promise<ReapedRun[]> {
    const [names, attempts] = [jobs.map(({ name }) => name), jobs.map(({ maxAttempts }) => maxAttempts)];
    const values = [names, attempts, unknown, limit, ...keyColumns(resting)];
    return accepted(await this.database.rows<ReapedRun & Refusable>('job_run_reap_1', values), refused);
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
    const values = [limit, ...keyColumns(resting)];
    return accepted(await this.database.rows<CancelledRun & Refusable>('job_run_cancel_removed_1', values), refused);
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
    return this.database.rows('job_run_waiting_1', [JSON.stringify(given), limit, slotNeededAt?.toISOString() ?? null]);
  }

  /** @param instanceId who looks */
  async ownersGone(instanceId: string): Promise<OthersSeen> {
    const [row] = await this.database.call<OthersRow>('others_gone_1', [instanceId, MOST_AT_A_LOOK]);
    return { run: row!.run, gone: (row!.gone ?? []).map((gone) => ({ ...gone, fireTime: new Date(gone.fireTime) })) };
  }

  /**
   * Ends the leases of runs whose owner's liveness lock is the same as it was seen, and is still not there. Their rows say
   * why, and every instance looks at what can be started now.
   */
  async takeOver(runs: readonly GoneRun[]): Promise<CutRun[]> {
    const [owners, locks] = [runs.map(({ instanceId }) => instanceId), runs.map(({ lifeline }) => lifeline)];
    const values = [...attemptColumns(runs), owners, locks];
    return this.database.rows('job_run_take_over_1', values);
  }

  /**
   * Ends the leases of runs that this instance has told its handlers to stop: others need not wait for them. The
   * attempts do not count, as those that are handed back: a database that was away for a moment is not the run's fault.
   */
  async giveUp(runs: readonly (RunKey & { readonly attempt: number })[], instanceId: string): Promise<CutRun[]> {
    return this.database.rows('job_run_give_up_1', [...attemptColumns(runs), instanceId]);
  }
}

/** Tells of the rows that the database refused, and leaves them out. */
function accepted<Run extends RunKey>(
  rows: readonly (Run & Refusable)[],
  refused: (run: RefusedRun) => void = () => {},
): Run[] {
  for (const { jobName, fireTime, problem } of rows) if (problem !== null) refused({ jobName, fireTime, problem });
  return rows.flatMap(({ problem, ...run }) => (problem === null ? [run as unknown as Run] : []));
}

interface Refusable {
  readonly problem: string | null;
}

interface OthersRow {
  readonly run: boolean;
  readonly gone: (Omit<GoneRun, 'fireTime'> & { readonly fireTime: string })[] | null;
}
