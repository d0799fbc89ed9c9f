import type { OwnedRun, RunKey } from '../../domain/runs/run.js';
import { queryOn, type Queryable } from '../connection/query.js';
import type { Statement } from '../connection/statement.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import { receiptFence } from './receipt-owner.js';

/** A receipt of a batch that is to be written. */
export interface BatchEntry {
  readonly entity: string;
  readonly idempotencyKey: string;
}

/** Many receipts of one effect in one statement. */
export class ReceiptBatchStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /**
   * Writes those that are not there, if the run is ours. In one order everywhere, so that batches that meet wait for each
   * other and never in a circle.
   */
  opening(run: OwnedRun, effect: string, entries: readonly BatchEntry[]): Statement {
    const [entities, keys] = [entries.map(({ entity }) => entity), entries.map(({ idempotencyKey }) => idempotencyKey)];
    return this.database.tables.calling('receipt_begin_all_1', [...receiptFence(run), effect, entities, keys]);
  }

  /** The entities whose receipts `opening` wrote; null when the run is not ours. */
  openedOf(rows: unknown[]): Set<string> | null {
    const begun = (rows as { begun: string | null }[]).map((row) => row.begun);
    return begun.length > 0 ? new Set(begun.filter((entity) => entity !== null)) : null;
  }

  /** Those of the entities whose effect has happened. */
  async withReceipt(target: Queryable, run: RunKey, effect: string, entities: readonly string[]): Promise<Set<string>> {
    const rows = await queryOn(target)<{ entity: string }>(
      `select entity
       from   ${this.database.tables.receipts}
       where  job_name = $1
       and    fire_time = $2
       and    effect = $3
       and    entity = any ($4::text[])
       and    state = 'done'`,
      [run.jobName, run.fireTime.toISOString(), effect, entities],
    );
    return new Set(rows.map(({ entity }) => entity));
  }
}
