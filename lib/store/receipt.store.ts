import type { EntityManager } from 'typeorm';
import type { OwnedRun } from '../domain/run.js';
import { fenceOf } from './fence.js';
import { queryOn } from './query.js';
import { receiptLockKey } from './receipt-lock.js';
import type { SchedulerDatabase } from './scheduler-database.js';

/** What a receipt stands for within its run. */
export interface ReceiptKey {
  readonly entity: string;
  readonly effect: string;
}

/** What was found when a receipt was to be written. */
export type ReceiptAnswer =
  /** It is ours to fill: the effect has not happened. */
  | { readonly kind: 'opened' }
  /** The effect has happened, in this attempt or an earlier one. */
  | { readonly kind: 'there'; readonly result: unknown }
  /** It is the receipt of a call outside the database. */
  | { readonly kind: 'external' }
  /** The run is no longer ours. */
  | { readonly kind: 'refused' };

/** The statements of a receipt, in the transaction that also holds the effect. */
export class ReceiptStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /**
   * Writes the receipt if the run is ours and it is not there; waits for a transaction that is about to write the same.
   * The transaction can be told by its lock, taken before it may have to wait: whoever takes the run over ends it.
   */
  async open(manager: EntityManager, run: OwnedRun, key: ReceiptKey, idempotencyKey: string): Promise<ReceiptAnswer> {
    const { jobRuns, receipts } = this.database.tables;
    const query = queryOn(manager);
    const [row] = await query<{ owned: boolean; opened: boolean }>(
      `with owned as materialized (
         select pg_advisory_xact_lock_shared(${receiptLockKey(this.database.tables.schema, 'job_name', 'fire_time', 'attempt')})
         from   ${jobRuns}
         where  job_name = $1
         and    fire_time = $2
         and    status = 'running'
         and    attempt = $3
         and    claimed_by = $4
         and    lease_until > clock_timestamp()
       ),
       opened as (
         insert into ${receipts} (job_name, fire_time, attempt, claimed_by, entity, effect, idempotency_key)
         select $1, $2, $3, $4, $5, $6, $7
         from   owned
         on conflict (job_name, fire_time, entity, effect) do nothing
         returning 1
       )
       select exists (select from owned) as owned,
              exists (select from opened) as opened`,
      [...fenceOf(run), key.entity, key.effect, idempotencyKey],
    );
    if (row!.opened) return { kind: 'opened' };
    if (!row!.owned) return { kind: 'refused' };
    const [there] = await query<{ kept: boolean; result: unknown; external: boolean }>(
      `select result is not null as kept, result, opened_at is not null as external
       from   ${receipts}
       where  job_name = $1
       and    fire_time = $2
       and    entity = $3
       and    effect = $4`,
      [run.jobName, run.fireTime.toISOString(), key.entity, key.effect],
    );
    if (there?.external) return { kind: 'external' };
    return { kind: 'there', result: there?.kept ? there.result : undefined };
  }

  /**
   * The last statement before the commit: keeps the result, and holds the run so that nobody reaps it until the
   * transaction ends. The lock lets heartbeats pass: were it stronger, a process that is busy with something else before
   * its commit would hold up the renewal of all its leases.
   * @param result JSON, or null to keep none
   * @returns false when the run is no longer ours: the transaction must be rolled back
   */
  async close(manager: EntityManager, run: OwnedRun, key: ReceiptKey, result: string | null): Promise<boolean> {
    const { jobRuns, receipts } = this.database.tables;
    const query = queryOn(manager);
    if (result !== null) {
      await query(
        `update ${receipts}
         set    result = $5::jsonb
         where  job_name = $1
         and    fire_time = $2
         and    entity = $3
         and    effect = $4`,
        [run.jobName, run.fireTime.toISOString(), key.entity, key.effect, result],
      );
    }
    const owned = await query(
      `select
       from   ${jobRuns}
       where  job_name = $1
       and    fire_time = $2
       and    status = 'running'
       and    attempt = $3
       and    claimed_by = $4
       and    lease_until > clock_timestamp()
       for    key share`,
      fenceOf(run),
    );
    return owned.length === 1;
  }
}
