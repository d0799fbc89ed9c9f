import type { EntityManager } from 'typeorm';
import type { OwnedRun } from '../domain/run.js';
import { queryOn } from './query.js';
import { receiptOwner } from './receipt-owner.js';
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
    const { receipts } = this.database.tables;
    const owner = receiptOwner(this.database.tables, run);
    const query = queryOn(manager);
    const [row] = await query<{ owned: boolean; opened: boolean }>(
      `with owned as materialized (
         select pg_advisory_xact_lock_shared(${owner.lockKey})
         from   ${owner.table}
         where  ${owner.isOurs}
       ),
       opened as (
         insert into ${receipts} (job_name, fire_time, attempt, claimed_by, entity, effect, idempotency_key)
         select $1, $2, $3, $4, $6, $7, $8
         from   owned
         on conflict (job_name, fire_time, entity, effect) do nothing
         returning 1
       )
       select exists (select from owned) as owned,
              exists (select from opened) as opened`,
      [...owner.fence, key.entity, key.effect, idempotencyKey],
    );
    if (row!.opened) return { kind: 'opened' };
    if (!row!.owned) return { kind: 'refused' };
    const [there] = await query<{ kept: boolean; result: unknown }>(
      `select result is not null as kept, result
       from   ${receipts}
       where  job_name = $1
       and    fire_time = $2
       and    entity = $3
       and    effect = $4`,
      [run.jobName, run.fireTime.toISOString(), key.entity, key.effect],
    );
    return { kind: 'there', result: there?.kept ? there.result : undefined };
  }

  /**
   * The last statement before the commit: keeps the result, and holds the run, or the page, so that nobody takes it over until the
   * transaction ends. The lock lets heartbeats pass: were it stronger, a process that is busy with something else before
   * its commit would hold up the renewal of all its leases.
   * @param result JSON, or null to keep none
   * @returns false when the run is no longer ours: the transaction must be rolled back
   */
  async close(manager: EntityManager, run: OwnedRun, key: ReceiptKey, result: string | null): Promise<boolean> {
    const { receipts } = this.database.tables;
    const owner = receiptOwner(this.database.tables, run);
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
       from   ${owner.table}
       where  ${owner.isOurs}
       for    key share`,
      [...owner.fence],
    );
    return owned.length === 1;
  }
}
