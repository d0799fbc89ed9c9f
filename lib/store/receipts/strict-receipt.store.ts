import type { OwnedRun } from '../../domain/runs/run.js';
import type { Statement } from '../connection/statement.js';
import { fenceOf } from '../runs/fence.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import { receiptFence } from './receipt-owner.js';
import type { ReceiptKey } from './receipt.store.js';

/**
 * The statements of a receipt in a transaction of the application's that is repeatable read or serializable. Its snapshot
 * shows the lease as it was when the transaction began, so the run is held first, and then looked at from outside: nobody
 * reaps a run that is held, and what the look finds holds until the transaction ends.
 */
export class StrictReceiptStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /** Holds the run in whatever state it is. See `isHeld`. */
  holding(run: OwnedRun): Statement {
    return this.database.tables.calling('receipt_hold_1', receiptFence(run));
  }

  /** Reads the rows of `holding`: false where the run does not even look like ours. */
  isHeld(rows: unknown[]): boolean {
    return (rows as [{ receipt_hold_1: string }])[0].receipt_hold_1 === 'held';
  }

  /** True when the run, as it is now, is ours. */
  async isOurs(run: OwnedRun): Promise<boolean> {
    const [row] = await this.database.call<{ receipt_is_ours_1: boolean }>('receipt_is_ours_1', receiptFence(run));
    return row!.receipt_is_ours_1;
  }

  /** Writes the receipt of a run that is held, and has been found ours. */
  writing(run: OwnedRun, key: ReceiptKey, idempotencyKey: string): Statement {
    return this.database.tables.calling('receipt_write_1', [...fenceOf(run), key.entity, key.effect, idempotencyKey]);
  }
}
