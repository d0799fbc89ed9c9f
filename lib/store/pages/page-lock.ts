import { quoteIdentifier } from '../../../migrations/frozen.js';

/**
 * SQL that takes the lock behind which the pages of an occurrence end, until the transaction does.
 * @param jobName SQL for a text
 * @param fireTime SQL for a timestamptz
 */
export function lockPages(schema: string, jobName: string, fireTime: string): string {
  return `select ${quoteIdentifier(schema)}.pages_lock_1(${jobName}, ${fireTime})`;
}
