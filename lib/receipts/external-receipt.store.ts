import type { EntityManager } from 'typeorm';
import type { InDoubtPolicy } from './external-effect.js';
import type { OwnedRun } from '../options/run.js';
import type { StoredError } from '../errors/stored-error.js';
import { fenceOf } from '../runs/job-run.repository.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import { readKept, receiptFence, resultToKeep } from './receipt.store.js';
import { callAlone } from '../database/transactions.js';
import type { ReceiptKey } from './receipt.store.js';

/** What was found when a call was to be made. */
export type CallAnswer =
  /** The call is ours to make, under this key; again, when an earlier one may have got through. */
  | { readonly kind: 'opened'; readonly idempotencyKey: string; readonly again: boolean }
  /** It was made, and this is what it answered. */
  | { readonly kind: 'there'; readonly result: unknown }
  /** Nobody knows what came of the call of that attempt; just parked, or a person's already. */
  | {
      readonly kind: 'in doubt';
      readonly parked: boolean;
      readonly attempt: number;
      readonly error: StoredError | null;
    }
  /** The receipt is one of an effect in the database. */
  | { readonly kind: 'mixed' }
  /** The run is no longer ours. */
  | { readonly kind: 'refused' };

/** What `receipt_call_open_1` answers: every column is a text. */
interface OpenedRow {
  readonly step: 'skip' | 'call' | 'call again' | 'park' | 'leave' | 'refuse' | 'refused';
  readonly key: string;
  readonly of_attempt: string;
  readonly kept: string | null;
  readonly failure: string | null;
}

/**
 * The receipt that stands for a call. It is opened by the owner of the run alone. What came of the call is written by
 * whoever made it, whatever has become of the run since: it is a fact, and the only one who knows it may have lost the
 * lease meanwhile. It goes to that attempt's own call, and only while nobody has made it again or decided about it.
 */
export class ExternalReceiptStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /**
   * Writes an open receipt, or says what the one that is there means. It is committed, for good, before the call is
   * made.
   */
  async open(
    manager: EntityManager,
    run: OwnedRun,
    key: ReceiptKey,
    idempotencyKey: string,
    policy: InDoubtPolicy,
  ): Promise<CallAnswer> {
    const row = await this.call<OpenedRow>(manager, 'receipt_call_open_1', [
      ...receiptFence(run),
      key.entity,
      key.effect,
      idempotencyKey,
      policy,
    ]);
    switch (row.step) {
      case 'refused':
        return { kind: 'refused' };
      case 'refuse':
        return { kind: 'mixed' };
      case 'skip':
        return { kind: 'there', result: readKept(row.kept) };
      case 'park':
      case 'leave':
        return {
          kind: 'in doubt',
          parked: row.step === 'park',
          attempt: Number(row.of_attempt),
          error: row.failure === null ? null : (JSON.parse(row.failure) as StoredError),
        };
      case 'call':
      case 'call again':
        return { kind: 'opened', idempotencyKey: row.key, again: row.step === 'call again' };
    }
  }

  /**
   * The call has been answered. Asked again, because the answer to this was lost, it finds what it has written.
   * @param result JSON, or null to keep none
   * @returns `late` when it is kept, and the run is no longer ours; `refused` when the call was made again since, or a
   * person has decided about it
   */
  async close(
    manager: EntityManager,
    run: OwnedRun,
    key: ReceiptKey,
    result: string | null,
  ): Promise<'closed' | 'late' | 'refused'> {
    const { receipt_call_close_1: verdict } = await this.call<{ receipt_call_close_1: 'closed' | 'late' | 'refused' }>(
      manager,
      'receipt_call_close_1',
      [...receiptFence(run), key.entity, key.effect, resultToKeep(result)],
    );
    return verdict;
  }

  /**
   * The call has failed, and may have got through all the same.
   * @returns true when it is a person's from now on
   */
  async doubt(
    manager: EntityManager,
    run: OwnedRun,
    key: ReceiptKey,
    error: StoredError,
    policy: InDoubtPolicy,
  ): Promise<boolean> {
    const became = await this.fail(manager, run, key, error, policy === 'park' ? 'in_doubt' : 'open');
    return became && policy === 'park';
  }

  /**
   * The call has failed, and surely did not get through: whoever comes next makes it. What is in doubt since stays with
   * its person, who can read the error.
   * @returns false: it is in doubt for nobody
   */
  async takeBack(manager: EntityManager, run: OwnedRun, key: ReceiptKey, error: StoredError): Promise<false> {
    await this.fail(manager, run, key, error, 'undone');
    return false;
  }

  private async fail(
    manager: EntityManager,
    run: OwnedRun,
    key: ReceiptKey,
    error: StoredError,
    becomes: 'open' | 'in_doubt' | 'undone',
  ): Promise<boolean> {
    const { receipt_call_fail_1: verdict } = await this.call<{ receipt_call_fail_1: string }>(
      manager,
      'receipt_call_fail_1',
      [...fenceOf(run), key.entity, key.effect, JSON.stringify(error), becomes],
    );
    return verdict === 'became';
  }

  private async call<Row>(
    manager: EntityManager,
    name: string,
    values: readonly (string | number | null)[],
  ): Promise<Row> {
    const [row] = await callAlone<Row>(manager, this.database.tables.calling(name, values));
    return row!;
  }
}
