import type { EntityManager } from 'typeorm';
import { nextStep, type FoundReceipt, type InDoubtPolicy, type NextStep, type ReceiptState } from '../../domain/effects/external-effect.js';
import type { OwnedRun } from '../../domain/runs/run.js';
import type { StoredError } from '../../domain/runs/stored-error.js';
import { fenceOf } from '../runs/fence.js';
import { queryOn } from '../connection/query.js';
import { receiptFence, receiptOwner } from './receipt-owner.js';
import type { ReceiptKey } from './receipt.store.js';
import type { SchedulerDatabase } from '../scheduler-database.js';

/** What was found when a call was to be made. */
export type CallAnswer =
  /** The call is ours to make, under this key; again, when an earlier one may have got through. */
  | { readonly kind: 'opened'; readonly idempotencyKey: string; readonly again: boolean }
  /** It was made, and this is what it answered. */
  | { readonly kind: 'there'; readonly result: unknown }
  /** Nobody knows what came of the call of that attempt; just parked, or a person's already. */
  | { readonly kind: 'in doubt'; readonly parked: boolean; readonly attempt: number; readonly error: StoredError | null }
  /** The receipt is one of an effect in the database. */
  | { readonly kind: 'mixed' }
  /** The run is no longer ours. */
  | { readonly kind: 'refused' };

interface FoundRow extends FoundReceipt {
  readonly attempt: number;
  readonly idempotencyKey: string;
  readonly result: unknown;
  readonly kept: boolean;
  readonly error: StoredError | null;
}

/** SQL for: the receipt is the one that this very attempt has opened. */
const OWN_CALL = `job_name = $1
       and    fire_time = $2
       and    attempt = $3
       and    claimed_by = $4
       and    entity = $5
       and    effect = $6`;

/**
 * The statements of a receipt that stands for a call. It is opened by the owner of the run alone. What came of the call is
 * written by whoever made it, whatever has become of the run since: it is a fact, and the only one who knows it may have
 * lost the lease meanwhile. It goes to that attempt's own call, and only while nobody has made it again or decided about it.
 */
export class ExternalReceiptStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /** Writes an open receipt, or says what the one that is there means. The caller commits before the call. */
  async open(manager: EntityManager, run: OwnedRun, key: ReceiptKey, idempotencyKey: string, policy: InDoubtPolicy): Promise<CallAnswer> {
    const { receipts } = this.database.tables;
    const owner = receiptOwner(this.database.tables, run);
    const [row] = await queryOn(manager)<{ owned: boolean; opened: boolean }>(
      `with owned as materialized (
         select pg_advisory_xact_lock_shared(${owner.lockKey})
         from   ${owner.table}
         where  ${owner.isOurs}
       ),
       opened as (
         insert into ${receipts} (job_name, fire_time, attempt, claimed_by, entity, effect, idempotency_key, state, opened_at)
         select $1, $2, $3, $4, $6, $7, $8, 'open', clock_timestamp()
         from   owned
         on conflict (job_name, fire_time, entity, effect) do nothing
         returning 1
       )
       select exists (select from owned) as owned,
              exists (select from opened) as opened`,
      [...receiptFence(run), key.entity, key.effect, idempotencyKey],
    );
    if (row!.opened) return { kind: 'opened', idempotencyKey, again: false };
    if (!row!.owned) return { kind: 'refused' };
    const found = await this.find(manager, run, key);
    return found ? this.follow(manager, run, key, found, nextStep(found, policy)) : { kind: 'refused' };
  }

  private async find(manager: EntityManager, run: OwnedRun, key: ReceiptKey): Promise<FoundRow | undefined> {
    const [found] = await queryOn(manager)<FoundRow>(
      `select state, opened_at is not null as external, attempt, idempotency_key as "idempotencyKey", result is not null as kept, result, error
       from   ${this.database.tables.receipts}
       where  job_name = $1
       and    fire_time = $2
       and    entity = $3
       and    effect = $4
       for    update`,
      [run.jobName, run.fireTime.toISOString(), key.entity, key.effect],
    );
    return found;
  }

  private async follow(manager: EntityManager, run: OwnedRun, key: ReceiptKey, found: FoundRow, step: NextStep): Promise<CallAnswer> {
    const { attempt, error, idempotencyKey } = found;
    switch (step) {
      case 'refuse':
        return { kind: 'mixed' };
      case 'skip':
        return { kind: 'there', result: found.kept ? found.result : undefined };
      case 'leave':
        return { kind: 'in doubt', parked: false, attempt, error };
      case 'park':
        return (await this.park(manager, run, key)) ? { kind: 'in doubt', parked: true, attempt, error } : { kind: 'refused' };
      case 'call':
      case 'call again':
        return (await this.reopen(manager, run, key)) ? { kind: 'opened', idempotencyKey, again: step === 'call again' } : { kind: 'refused' };
    }
  }

  /** The row is locked, but it may have been waited for: the run is asked for once more. */
  private async reopen(manager: EntityManager, run: OwnedRun, key: ReceiptKey): Promise<boolean> {
    const { receipts } = this.database.tables;
    const owner = receiptOwner(this.database.tables, run, '$7');
    const reopened = await queryOn(manager)(
      `update ${receipts}
       set    state = 'open',
              attempt = $3,
              claimed_by = $4,
              opened_at = clock_timestamp(),
              closed_at = null,
              result = null,
              error = null,
              resolved_by = null,
              resolved_reason = null
       where  job_name = $1
       and    fire_time = $2
       and    entity = $5
       and    effect = $6
       and    exists (
         select from ${owner.table}
         where  ${owner.isOurs})
       returning 1`,
      [...fenceOf(run), key.entity, key.effect, run.page ?? null],
    );
    return reopened.length === 1;
  }

  private async park(manager: EntityManager, run: OwnedRun, key: ReceiptKey): Promise<boolean> {
    const { receipts } = this.database.tables;
    const owner = receiptOwner(this.database.tables, run, '$7');
    const parked = await queryOn(manager)(
      `update ${receipts}
       set    state = 'in_doubt'
       where  job_name = $1
       and    fire_time = $2
       and    entity = $5
       and    effect = $6
       and    exists (
         select from ${owner.table}
         where  ${owner.isOurs})
       returning 1`,
      [...fenceOf(run), key.entity, key.effect, run.page ?? null],
    );
    return parked.length === 1;
  }

  /**
   * The call has been answered. Asked again, because the answer to this was lost, it finds what it has written.
   * @param result JSON, or null to keep none
   * @returns `late` when it is kept, and the run is no longer ours; `refused` when the call was made again since, or a person
   * has decided about it
   */
  async close(manager: EntityManager, run: OwnedRun, key: ReceiptKey, result: string | null): Promise<'closed' | 'late' | 'refused'> {
    const owner = receiptOwner(this.database.tables, run, '$8');
    const [closed] = await queryOn(manager)<{ owned: boolean }>(
      `update ${this.database.tables.receipts}
       set    state = 'done',
              result = $7::jsonb,
              error = null,
              closed_at = clock_timestamp()
       where  ${OWN_CALL}
       and    state in ('open', 'in_doubt', 'done')
       and    resolved_by is null
       returning exists (
         select from ${owner.table}
         where  ${owner.isOurs}) as owned`,
      [...fenceOf(run), key.entity, key.effect, result, run.page ?? null],
    );
    if (!closed) return 'refused';
    return closed.owned ? 'closed' : 'late';
  }

  /**
   * The call has failed, and may have got through all the same.
   * @returns true when it is a person's from now on
   */
  async doubt(manager: EntityManager, run: OwnedRun, key: ReceiptKey, error: StoredError, policy: InDoubtPolicy): Promise<boolean> {
    const [doubted] = await queryOn(manager)<{ was: ReceiptState }>(
      `with found as materialized (
         select state as was
         from   ${this.database.tables.receipts}
         where  ${OWN_CALL}
         for    update
       )
       update ${this.database.tables.receipts}
       set    state = case found.was when 'open' then $8 else state end,
              error = $7::jsonb
       from   found
       where  ${OWN_CALL}
       and    state in ('open', 'in_doubt')
       returning found.was`,
      [...fenceOf(run), key.entity, key.effect, JSON.stringify(error), policy === 'park' ? 'in_doubt' : 'open'],
    );
    return policy === 'park' && doubted?.was === 'open';
  }

  /**
   * The call has failed, and surely did not get through: whoever comes next makes it. What is in doubt since stays with its
   * person, who can read the error.
   * @returns false: it is in doubt for nobody
   */
  async takeBack(manager: EntityManager, run: OwnedRun, key: ReceiptKey, error: StoredError): Promise<false> {
    await queryOn(manager)(
      `update ${this.database.tables.receipts}
       set    state = case state when 'open' then 'undone' else state end,
              closed_at = case state when 'open' then clock_timestamp() end,
              error = $7::jsonb
       where  ${OWN_CALL}
       and    state in ('open', 'in_doubt')`,
      [...fenceOf(run), key.entity, key.effect, JSON.stringify(error)],
    );
    return false;
  }
}
