import { Repository } from 'typeorm';
import type { PartitionStore } from '../database/partition.store.js';
import { queryOn } from '../database/query.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import type { Statement } from '../database/transactions.js';
import type { StoredError } from '../errors/stored-error.js';
import {
  type AskedToStop,
  type AskedToStopRow,
  type OwnedRun,
  readAskedToStop,
  type RunKey,
  type RunStatus,
  type SavedCheckpoint,
} from '../options/run.js';
import {
  answers,
  byKey,
  type ClaimAnswers,
  type ClaimRow,
  type DueOccurrence,
  given,
  sparse,
  type WaitingRun,
} from './claim.js';
import { JobRun } from './job-run.entity.js';
import type { RunEnd } from './outcome.js';

/** The first four parameters of every fenced statement: job, fire time, attempt, instance. */
export function fenceOf(run: OwnedRun): [string, string, number, string] {
  return [run.jobName, run.fireTime.toISOString(), run.attempt, run.instanceId];
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
export interface PossibleClaim extends RunKey {
  readonly attempt: number;
  /** The number of that claim. */
  readonly claim: number;
  readonly leaseMs: number;
}

/**
 * The runs, and what the instance that owns them does with them. Each transition is one function of the database, called
 * as one statement. Writes that end an attempt name it and ask for a lease that still holds: an owner that was frozen
 * past it, or was reaped, changes nothing and is told so. Each claim has a number, by which its instance can tell
 * afterwards what it has begun.
 */
export class JobRunRepository extends Repository<JobRun> {
  constructor(
    private readonly database: SchedulerDatabase,
    private readonly partitions: PartitionStore,
  ) {
    super(JobRun, database.coordination.manager);
  }

  /** The run of one occurrence; null when there is none. */
  ofOccurrence({ jobName, fireTime }: RunKey): Promise<JobRun | null> {
    return this.findOneBy({ jobName, fireTime });
  }

  /** Those of these occurrences that have a row. */
  async withRow(keys: readonly RunKey[]): Promise<RunKey[]> {
    if (keys.length === 0) return [];
    return this.database.rows('job_run_decided_1', keyColumns(keys));
  }

  /** Claims what is due and free, in one batch. Losers write nothing. */
  async claimDue(due: readonly DueOccurrence[], instanceId: string, claim = 0): Promise<ClaimAnswers> {
    if (due.length === 0) return answers([]);
    // One named twice would be answered twice, and both times as claimed.
    const sorted = [...due].sort(byKey).filter((one, index, all) => index === 0 || byKey(all[index - 1]!, one) !== 0);
    return this.partitions.makingSure(
      () => sorted.map(({ fireTime }) => fireTime),
      async () =>
        answers(await this.database.rows('job_run_claim_1', [JSON.stringify(sorted.map(given)), instanceId, claim])),
    );
  }

  /**
   * Claims runs that wait for their next attempt. At most one of a job that forbids overlap, and none beside a running
   * one;
   * of a backfill no more than it runs at a time, and none that would keep the schedule waiting.
   */
  async claimWaiting(waiting: readonly WaitingRun[], instanceId: string, claim = 0): Promise<ClaimAnswers> {
    const rows = await this.database.rows<ClaimRow>('job_run_start_1', [
      JSON.stringify([...waiting].sort(byKey).map(given)),
      instanceId,
      claim,
    ]);
    const large = await this.dataOf(rows.filter(({ hasData, data }) => hasData && !data));
    return answers(
      rows.map((row) => ({
        ...row,
        data: row.data ?? large.get(row) ?? null,
        verdict: row.pages === null ? 'claimed' : 'fanned_out',
      })),
    );
  }

  /** What was too large for the answer of a claim: a statement of its own holds no lock while it is sent. */
  private async dataOf<Row extends RunKey>(rows: readonly Row[]): Promise<Map<Row, [unknown]>> {
    if (rows.length === 0) return new Map();
    const found = await queryOn(this.database.coordination)<{ place: string; data: unknown }>(
      `select wanted.place, run.data
       from   unnest($1::text[], $2::timestamptz[]) with ordinality as wanted (job_name, fire_time, place)
       join   ${this.database.tables.jobRuns} run on run.job_name = wanted.job_name and run.fire_time = wanted.fire_time`,
      keyColumns(rows),
    );
    return new Map(found.map(({ place, data }) => [rows[Number(place) - 1]!, [data]]));
  }

  /**
   * Ends an attempt. One that was to be cancelled, and has ended otherwise before it heard of that, is cancelled: it
   * would start again. What is handed back wakes the others up.
   * @returns null when the run is no longer ours
   */
  async end(run: OwnedRun, end: RunEnd): Promise<WrittenEnd | null> {
    const [answer] = await this.writeEnds([{ run, end }], true);
    return answer!.kind === 'written' ? answer!.end : null;
  }

  /**
   * A row that somebody else holds is passed over, so that it does not hold up the others; for that reason, too, two
   * such statements never wait for each other crosswise.
   * @returns an answer for each, in the order they were given
   */
  endAll(ends: readonly EndedAttempt[]): Promise<EndAnswer[]> {
    return this.writeEnds(ends, false);
  }

  /** How this very attempt has ended; null when it has not. A write whose answer was lost may have been accepted. */
  async endOf(run: OwnedRun): Promise<WrittenEnd | null> {
    const [ended] = await queryOn(this.database.coordination)<WrittenEnd>(
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
   * Hands back attempts that were claimed for this instance, and that it never heard of: they have not begun, so they
   * don't count. What somebody else has made of them stays, and what a later claim of this instance has begun.
   * @returns those that were
   */
  async handBack(
    claims: readonly Omit<PossibleClaim, 'leaseMs'>[],
    instanceId: string,
  ): Promise<Omit<PossibleClaim, 'leaseMs'>[]> {
    const values = [...attemptColumns(claims), claims.map(({ claim }) => claim), instanceId];
    return this.database.rows('job_run_hand_back_1', values);
  }

  /**
   * Keeps where the next attempt resumes. @param json null for nothing
   * @returns false when the run is no longer ours
   */
  async keepCheckpoint(run: OwnedRun, json: string | null): Promise<boolean> {
    const [row] = await this.database.call<{ run_checkpoint_1: string }>('run_checkpoint_1', [...fenceOf(run), json]);
    return row!.run_checkpoint_1 === 'saved';
  }

  /**
   * Waits for a write whose answer was lost and that may still be under way.
   * @returns null when there is none, undefined when the run is no longer ours
   */
  async checkpointOf(run: OwnedRun): Promise<SavedCheckpoint | null | undefined> {
    const [row] = await queryOn(this.database.coordination)<{ kept: boolean; value: unknown }>(
      `select checkpoint is not null as kept, checkpoint as value
       from   ${this.database.tables.jobRuns}
       where  job_name = $1
       and    fire_time = $2
       and    ${this.database.tables.qualify('run_is_ours_1')}($3, $4, attempt, claimed_by, status, lease_until)
       for    no key update`,
      fenceOf(run),
    );
    return row && (row.kept ? { value: row.value } : null);
  }

  /** The first statement of a run's transaction: by its lock whoever takes the run over finds it and ends it. */
  beginStep(run: OwnedRun): Statement {
    return this.database.tables.calling('run_step_begin_1', fenceOf(run));
  }

  /** Reads the rows of `beginStep`: whether the run is ours. */
  isStepBegun(rows: unknown[]): boolean {
    return (rows as [{ run_step_begin_1: string }])[0].run_step_begin_1 === 'ours';
  }

  /**
   * The last statement, to be sent with the commit: it fails when the run is no longer ours, see `isRefusedClose`. One
   * that changes nothing of the run holds it, so that nobody reaps it before the commit.
   * @param json a checkpoint; null to leave it as it is
   * @param complete the run is done with this
   */
  endStep(run: OwnedRun, json: string | null, complete: boolean): Statement {
    return this.database.tables.calling('run_step_end_1', [...fenceOf(run), json, String(complete)]);
  }

  /** Whether this attempt has completed its run, once a transaction that may still be under way has ended. */
  async isCompleted(run: OwnedRun): Promise<boolean> {
    const [row] = await queryOn(this.database.coordination)<{ status: string }>(
      `select status
       from   ${this.database.tables.jobRuns}
       where  job_name = $1
       and    fire_time = $2
       and    attempt = $3
       and    claimed_by = $4
       for    no key update`,
      fenceOf(run),
    );
    return row?.status === 'done';
  }

  /** What the handlers of an instance are to stop for. @param flags those that are asked for */
  async askedToStop(instanceId: string, flags: readonly string[]): Promise<AskedToStop> {
    return readAskedToStop((await this.database.call<AskedToStopRow>('asked_to_stop_1', [instanceId, flags]))[0]!);
  }

  /** Whether an attempt of the occurrence has published pages. */
  async hasPages({ jobName, fireTime }: RunKey): Promise<boolean> {
    const pages = await queryOn(this.database.coordination)(
      `select
       from   ${this.database.tables.jobPages}
       where  job_name = $1
       and    fire_time = $2
       limit  1`,
      [jobName, fireTime.toISOString()],
    );
    return pages.length > 0;
  }

  /** @param patient waits for rows that somebody holds: then what is passed over is no longer ours */
  private async writeEnds(ends: readonly EndedAttempt[], patient: boolean): Promise<EndAnswer[]> {
    if (ends.length === 0) return [];
    const { instanceId } = ends[0]!.run;
    const given = ends.map(({ run, end }, place) => {
      const { jobName, fireTime, attempt } = run;
      return sparse({
        place,
        jobName,
        fireTime,
        attempt,
        instanceId: run.instanceId === instanceId ? null : run.instanceId,
        ...(end.status === 'done' ? null : end),
      });
    });
    const rows = await this.database.call<EndedRow>('job_run_end_1', [JSON.stringify(given), instanceId, patient]);
    const found = new Map(rows.map(({ place, status, reason }) => [place, { status, reason }]));
    return ends.map((_, place) => {
      const end = found.get(place);
      return end ? { kind: 'written', end } : { kind: 'passed over' };
    });
  }
}

/** An attempt, and how it ends. */
export interface EndedAttempt {
  readonly run: OwnedRun;
  readonly end: RunEnd;
}

/** What became of one end of several. */
export type EndAnswer =
  | { readonly kind: 'written'; readonly end: WrittenEnd }
  /** Somebody holds the row, or the run is no longer ours. To be written by itself, which tells. */
  | { readonly kind: 'passed over' };

interface EndedRow {
  readonly place: number;
  readonly status: RunStatus;
  readonly reason: string | null;
}

/** The columns by which functions are given several runs. */
export function keyColumns(runs: readonly RunKey[]): [string[], string[]] {
  return [runs.map(({ jobName }) => jobName), runs.map(({ fireTime }) => fireTime.toISOString())];
}

/** The same for attempts. */
export function attemptColumns(
  runs: readonly (RunKey & { readonly attempt: number })[],
): [string[], string[], number[]] {
  return [...keyColumns(runs), runs.map(({ attempt }) => attempt)];
}
