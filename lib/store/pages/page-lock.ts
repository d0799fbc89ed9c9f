/**
 * SQL that takes the lock behind which the pages of an occurrence end, until the transaction does: of two that end at once,
 * each would otherwise see the other as still open, and nobody would end the occurrence. It is not the row of the run, whose lease
 * is renewed while its first pages end already.
 * @param jobName SQL for a text
 * @param fireTime SQL for a timestamptz
 */
export function lockPages(schema: string, jobName: string, fireTime: string): string {
  const prefix = `nestjs-distributed-cron:pages:${schema}:`.replaceAll("'", "''");
  return `select pg_advisory_xact_lock(hashtextextended('${prefix}' || ${jobName} || ' ' || extract(epoch from ${fireTime})::text, 0))`;
}
