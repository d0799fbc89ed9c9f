import type { OwnedRun } from '../../domain/runs/run.js';
import { fenceOf } from '../runs/fence.js';
import { queryOn } from '../connection/query.js';
import { receiptFence, receiptOwner } from './receipt-owner.js';
import type { ReceiptKey } from './receipt.store.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import type { Statement } from '../connection/statement.js';

/**
 * The statements of a receipt in a transaction of the application's that is repeatable read or serializable. Its snapshot
 * shows the lease as it was when the transaction began, so the run is held first, and then looked at from outside: nobody
 * reaps a run that is held, and what the look finds holds until the transaction ends.
 */
export class StrictReceiptStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /** Holds the run in whatever state it is; where it does not even look like ours, no row. */
  holding(run: OwnedRun): Statement {
    const owner = receiptOwner(this.database.tables, run);
    const text = `
      select pg_advisory_xact_lock_shared(${owner.lockKey})
      from   ${owner.table}
      where  ${owner.isNamed}
      for    key share`;
    return { text, values: receiptFence(run) };
  }

  /** True when the run, as it is now, is ours. */
  async isOurs(run: OwnedRun): Promise<boolean> {
    const owner = receiptOwner(this.database.tables, run);
    const rows = await queryOn(this.database.coordination)(`select from ${owner.table} where ${owner.isOurs}`, receiptFence(run));
    return rows.length === 1;
  }

  /** Writes the receipt of a run that is held, and has been found ours; one row when it was not there. */
  writing(run: OwnedRun, key: ReceiptKey, idempotencyKey: string): Statement {
    const text = `
      insert into ${this.database.tables.receipts} (job_name, fire_time, attempt, claimed_by, entity, effect, idempotency_key)
      values ($1, $2, $3, $4, $5, $6, $7)
      on     conflict (job_name, fire_time, entity, effect) do nothing
      returning entity`;
    return { text, values: [...fenceOf(run), key.entity, key.effect, idempotencyKey] };
  }
}
