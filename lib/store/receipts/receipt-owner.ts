import type { OwnedRun } from '../../domain/runs/run.js';
import { fenceOf } from '../runs/fence.js';
import { receiptLockKey } from './receipt-lock.js';
import type { Tables } from '../tables.js';

/** Whose a receipt is: the row that has to be this process' when it is written. */
export interface ReceiptOwner {
  /** SQL for the row's table. */
  readonly table: string;
  /** SQL for: the row names this attempt, whatever has become of it. */
  readonly isNamed: string;
  /** SQL for: the row is this process'. */
  readonly isOurs: string;
  /** SQL for the advisory key by which the transaction is told, of the row's columns. */
  readonly lockKey: string;
}

/** The first five parameters of a receipt's statements: job, fire time, attempt, instance, and the page, if it is one's. */
export function receiptFence(run: OwnedRun): [string, string, number, string, string | null] {
  return [...fenceOf(run), run.page ?? null];
}

/**
 * A run is its owner's while its lease holds. A page has no lease: it is its worker's until the queue has delivered it again, and
 * whoever got that has raised the attempt. In its SQL $1 to $4 are the fence.
 * @param page SQL for the page's id, or null
 */
export function receiptOwner(tables: Tables, run: OwnedRun, page = '$5'): ReceiptOwner {
  return ownersOf(tables, ['$1', '$2', '$3', '$4', page])[run.page === undefined ? 'run' : 'page'];
}

/** @param fence SQL for job, fire time, attempt, instance and page */
export function ownersOf(tables: Tables, [job, fireTime, attempt, instance, page]: readonly [string, string, string, string, string]): { readonly run: ReceiptOwner; readonly page: ReceiptOwner } {
  const named = `job_name = ${job}
         and    fire_time = ${fireTime}
         and    attempt = ${attempt}
         and    claimed_by = ${instance}`;
  const runNamed = `${named}
         and    ${page}::text is null`;
  const pageNamed = `${named}
         and    page = ${page}`;
  const { jobRuns, jobPages } = tables;
  return {
    run: {
      table: jobRuns,
      isNamed: runNamed,
      isOurs: `${runNamed}
         and    status = 'running'
         and    lease_until > clock_timestamp()`,
      lockKey: receiptLockKey(tables, 'job_name', 'fire_time', 'attempt'),
    },
    page: {
      table: jobPages,
      isNamed: pageNamed,
      isOurs: `${pageNamed}
         and    status = 'running'`,
      lockKey: receiptLockKey(tables, 'job_name', 'fire_time', 'attempt', 'page'),
    },
  };
}
