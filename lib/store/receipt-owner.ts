import type { OwnedRun } from '../domain/run.js';
import { fenceOf } from './fence.js';
import { receiptLockKey } from './receipt-lock.js';
import type { Tables } from './tables.js';

/** Whose a receipt is: the row that has to be this process' when it is written. */
export interface ReceiptOwner {
  /** SQL for the row's table. */
  readonly table: string;
  /** SQL for: the row is this process'. $1 to $4 are its fence, $5 the page or null. */
  readonly isOurs: string;
  /** SQL for the advisory key by which the transaction is told, of the row's columns. */
  readonly lockKey: string;
  readonly fence: readonly unknown[];
}

/**
 * A run is its owner's while its lease holds. A page has no lease: it is its worker's until the queue has delivered it again, and
 * whoever got that has raised the attempt.
 */
export function receiptOwner({ jobRuns, jobPages, schema }: Tables, run: OwnedRun): ReceiptOwner {
  const ours = `job_name = $1
         and    fire_time = $2
         and    status = 'running'
         and    attempt = $3
         and    claimed_by = $4`;
  const fence = [...fenceOf(run), run.page ?? null];
  return run.page === undefined
    ? { table: jobRuns, isOurs: `${ours} and $5::text is null and lease_until > clock_timestamp()`, lockKey: receiptLockKey(schema, 'job_name', 'fire_time', 'attempt'), fence }
    : { table: jobPages, isOurs: `${ours} and page = $5`, lockKey: receiptLockKey(schema, 'job_name', 'fire_time', 'attempt', 'page'), fence };
}
