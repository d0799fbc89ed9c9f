import type { RunKey } from '../../domain/runs/run.js';
import type { Statement } from '../connection/statement.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import type { ReceiptKey, ReceiptRow } from './receipt.store.js';

/** What opening one answers: with the occurrence's attempt, null where it has no row. */
export interface OccurrenceOpened extends ReceiptRow {
  readonly of_attempt: string | null;
}

/** How long a transaction without a lease may do nothing, in milliseconds, before the server ends it. */
const MOST_IDLE_MS = 60_000;

/** A receipt that belongs to an occurrence, and to no attempt at it: no lease, so no fence. */
export class OccurrenceReceiptStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /**
   * Writes the receipt if the occurrence has a row and the receipt is not there.
   * @param own in a transaction of the receipt's own
   */
  opening({ jobName, fireTime }: RunKey, { entity, effect }: ReceiptKey, writer: string, idempotencyKey: string, own: boolean): Statement {
    const values = [jobName, fireTime.toISOString(), writer, entity, effect, idempotencyKey, String(own), MOST_IDLE_MS];
    return this.database.tables.calling('receipt_begin_for_occurrence_1', values);
  }
}
