import type { OwnedRun, SavedCheckpoint } from '../options/run.js';
import { fenceOf } from './job-run.repository.js';
import { queryOn, type Query } from '../database/query.js';
import type { Statement } from '../database/transactions.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';

/**
 * What a handler writes about its own run before its end: checkpoints, and the statements of `run.transaction`. Each
 * names the attempt and asks for a lease that still holds; none touches the lease.
 */
export class StepStore {
  private readonly query: Query;

  constructor(private readonly database: SchedulerDatabase) {
    this.query = queryOn(database.coordination);
  }

  /**
   * @param json null for none
   * @returns false when the run is no longer ours
   */
  async save(run: OwnedRun, json: string | null): Promise<boolean> {
    const [row] = await this.database.call<{ run_checkpoint_1: string }>('run_checkpoint_1', [...fenceOf(run), json]);
    return row!.run_checkpoint_1 === 'saved';
  }

  /**
   * Waits for a write whose answer was lost and that may still be under way.
   * @returns null when there is none, undefined when the run is no longer ours
   */
  async load(run: OwnedRun): Promise<SavedCheckpoint | null | undefined> {
    const [row] = await this.query<{ kept: boolean; value: unknown }>(
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

  get schema(): string {
    return this.database.tables.schema;
  }

  /** By the scheduler's own connection. */
  async isOurs(run: OwnedRun): Promise<boolean> {
    return (await this.load(run)) !== undefined;
  }

  /** The first statement of a run's transaction: by its lock whoever takes the run over finds it and ends it. */
  opening(run: OwnedRun): Statement {
    return this.database.tables.calling('run_step_begin_1', fenceOf(run));
  }

  /** Reads the rows of `opening`: whether the run is ours. */
  isOpened(rows: unknown[]): boolean {
    return (rows as [{ run_step_begin_1: string }])[0].run_step_begin_1 === 'ours';
  }

  /**
   * The last statement, to be sent with the commit: it fails when the run is no longer ours, see `isRefusedClose`. One
   * that changes nothing of the run holds it, so that nobody reaps it before the commit.
   * @param json a checkpoint; null to leave it as it is
   * @param complete the run is done with this
   */
  closing(run: OwnedRun, json: string | null, complete: boolean): Statement {
    return this.database.tables.calling('run_step_end_1', [...fenceOf(run), json, String(complete)]);
  }

  /** Whether an attempt of the occurrence has published pages. */
  async hasPages(run: OwnedRun): Promise<boolean> {
    const pages = await this.query(
      `select
       from   ${this.database.tables.jobPages}
       where  job_name = $1
       and    fire_time = $2
       limit  1`,
      [run.jobName, run.fireTime.toISOString()],
    );
    return pages.length > 0;
  }

  /** Whether this attempt has completed its run, once a transaction that may still be under way has ended. */
  async isCompleted(run: OwnedRun): Promise<boolean> {
    const [row] = await this.query<{ status: string }>(
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
}
