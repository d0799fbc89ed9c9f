/**
 * SQL for the advisory key that every open receipt of one attempt, of a run or of a page, holds (shared) until its transaction ends. It tells who
 * still has one open: a process that is frozen in the middle of a receipt would otherwise keep it, unseen and uncommitted,
 * from whoever takes over.
 */
export function receiptLockKey(schema: string, jobName: string, fireTime: string, attempt: string, page?: string): string {
  const prefix = `nestjs-distributed-cron:receipt:${schema}:`.replaceAll("'", "''");
  return `hashtextextended('${prefix}' || ${jobName} || ' ' || extract(epoch from ${fireTime})::bigint || ' ' || ${attempt}${page ? ` || ' ' || ${page}` : ''}, 0)`;
}
