import type { Tables } from '../tables.js';

/**
 * SQL for the advisory key that every open receipt of one attempt, of a run or of a page, holds (shared) until its transaction ends. It tells who
 * still has one open: a process that is frozen in the middle of a receipt would otherwise keep it, unseen and uncommitted,
 * from whoever takes over.
 */
export function receiptLockKey(tables: Tables, jobName: string, fireTime: string, attempt: string, page = 'null'): string {
  return `${tables.qualify('receipt_lock_1')}(${jobName}, ${fireTime}, ${attempt}, ${page})`;
}
