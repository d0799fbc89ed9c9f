import type { EntityManager } from 'typeorm';
import type { OwnedRun, RunKey } from '../../domain/runs/run.js';
import type { Statement } from '../connection/statement.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import { readKept, receiptFence } from './receipt-owner.js';
import { callAlone } from './receipt-transaction.js';
import { isRefusedClose } from './refused-close.js';

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

/** What the functions that write a receipt answer: every column is a text. */
export interface ReceiptRow {
  readonly verdict: ReceiptAnswer['kind'];
  readonly kept: string | null;
}

export function receiptAnswer({ verdict, kept }: ReceiptRow): ReceiptAnswer {
  return verdict === 'there' ? { kind: verdict, result: readKept(kept) } : { kind: verdict };
}

/** The statements of a receipt, in the transaction that also holds the effect. */
export class ReceiptStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /**
   * Writes the receipt if the run is ours and it is not there; waits for a transaction that is about to write the same.
   * The transaction can be told by its lock, taken before it may have to wait: whoever takes the run over ends it.
   */
  async open(manager: EntityManager, run: OwnedRun, key: ReceiptKey, idempotencyKey: string): Promise<ReceiptAnswer> {
    const [row] = await callAlone<ReceiptRow>(manager, this.opening(run, key, idempotencyKey, false));
    return receiptAnswer(row!);
  }

  /** @param own in a transaction of the receipt's own */
  opening(run: OwnedRun, key: ReceiptKey, idempotencyKey: string, own: boolean): Statement {
    return this.database.tables.calling('receipt_begin_1', [...receiptFence(run), key.entity, key.effect, idempotencyKey, String(own)]);
  }

  /**
   * The last statement before the commit, with which it is sent: keeps the result, and holds the run, or the page, so that nobody takes
   * it over until the transaction ends. It fails when the run is no longer ours, see `isRefusedClose`.
   * @param result JSON, or null to keep none
   */
  closing(run: OwnedRun, key: ReceiptKey, result: string | null): Statement {
    return this.database.tables.calling('receipt_end_1', [...receiptFence(run), key.entity, key.effect, result]);
  }

  /** Sends `closing` alone. @returns false when the run is no longer ours: the transaction must be rolled back */
  async close(manager: EntityManager, run: OwnedRun, key: ReceiptKey, result: string | null): Promise<boolean> {
    try {
      await callAlone(manager, this.closing(run, key, result));
      return true;
    } catch (error) {
      if (isRefusedClose(error)) return false;
      throw error;
    }
  }

  /** Keeps what the effect returned; nothing to do for null. */
  keeping({ jobName, fireTime }: RunKey, { entity, effect }: ReceiptKey, result: string | null): Statement[] {
    return result === null ? [] : [this.database.tables.calling('receipt_keep_1', [jobName, fireTime.toISOString(), entity, effect, result])];
  }
}
