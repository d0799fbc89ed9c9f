import type { EntityManager } from 'typeorm';
import type { OwnedRun, SavedCheckpoint } from '../../domain/runs/run.js';
import { fenceOf, IS_OURS } from './fence.js';
import { queryOn, type Query } from '../connection/query.js';
import { receiptLockKey } from '../receipts/receipt-lock.js';
import type { SchedulerDatabase } from '../scheduler-database.js';

/**
 * What a handler writes about its own run before its end: checkpoints, and the statements of `run.transaction`. Each names
 * the attempt and asks for a lease that still holds; none touches the lease.
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
  async save(run: OwnedRun, json: string | null, manager?: EntityManager): Promise<boolean> {
    const saved = await this.on(manager)(
      `update ${this.database.tables.jobRuns}
       set    checkpoint = $5::jsonb
       where  ${IS_OURS}
       returning 1`,
      [...fenceOf(run), json],
    );
    return saved.length === 1;
  }

  /**
   * Waits for a write whose answer was lost and that may still be under way.
   * @returns null when there is none, undefined when the run is no longer ours
   */
  async load(run: OwnedRun): Promise<SavedCheckpoint | null | undefined> {
    const [row] = await this.query<{ kept: boolean; value: unknown }>(
      `select checkpoint is not null as kept, checkpoint as value
       from   ${this.database.tables.jobRuns}
       where  ${IS_OURS}
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

  /** The first statement of a run's transaction: by its lock whoever takes the run over finds it and ends it. @returns whether the run is ours */
  async open(manager: EntityManager, run: OwnedRun): Promise<boolean> {
    const owned = await this.on(manager)(
      `select pg_advisory_xact_lock_shared(${receiptLockKey(this.database.tables, 'job_name', 'fire_time', 'attempt')})
       from   ${this.database.tables.jobRuns}
       where  ${IS_OURS}`,
      fenceOf(run),
    );
    return owned.length === 1;
  }

  /**
   * The last statement of one that changes nothing of the run: holds it so that nobody reaps it until the transaction ends.
   * Heartbeats pass. @returns whether the run is ours
   */
  async hold(manager: EntityManager, run: OwnedRun): Promise<boolean> {
    const owned = await this.on(manager)(
      `select
       from   ${this.database.tables.jobRuns}
       where  ${IS_OURS}
       for    key share`,
      fenceOf(run),
    );
    return owned.length === 1;
  }

  /**
   * The last statement of one that completes the run.
   * @param json a checkpoint; null to leave it as it is
   * @returns whether the run was ours
   */
  async complete(manager: EntityManager, run: OwnedRun, json: string | null): Promise<boolean> {
    const completed = await this.on(manager)(
      `update ${this.database.tables.jobRuns}
       set    status = 'done',
              finished_at = clock_timestamp(),
              checkpoint = coalesce($5::jsonb, checkpoint)
       where  ${IS_OURS}
       returning 1`,
      [...fenceOf(run), json],
    );
    return completed.length === 1;
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

  private on(manager: EntityManager | undefined): Query {
    return manager ? queryOn(manager) : this.query;
  }
}
