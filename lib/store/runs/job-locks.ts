/**
 * SQL that takes the locks behind which a job's occurrences are claimed, until the transaction ends. In the order of the
 * names: two replicas that lock the same jobs in different orders would wait for each other.
 * @param names SQL for a jsonb array of names, in ascending order
 */
export function lockJobs(schema: string, names: string): string {
  const prefix = jobLock(schema, '').replaceAll("'", "''");
  return `
     select pg_advisory_xact_lock(hashtextextended('${prefix}' || name, 0))
     from   jsonb_array_elements_text(${names}) with ordinality as job (name, position)
     order  by position`;
}

/** The name that claims of a job hold while they look and write. */
export function jobLock(schema: string, jobName: string): string {
  return `nestjs-distributed-cron:job:${schema}:${jobName}`;
}
