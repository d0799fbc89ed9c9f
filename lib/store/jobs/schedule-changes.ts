import type { Query } from '../connection/query.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import { inTransaction, lockName } from '../connection/transaction.js';

/**
 * Changes what replicas follow: one transaction at a time. The revisions it hands out are therefore in the order of the
 * commits, and whoever has seen one has seen all that were before it.
 * @param work writes its revision to each row it changes
 */
export function changingSchedules<Result>(
  { coordination, tables }: SchedulerDatabase,
  work: (query: Query, revision: number) => Promise<Result>,
): Promise<Result> {
  return inTransaction(coordination, async (query) => {
    await lockName(query, `nestjs-distributed-cron:schedules:${tables.schema}`);
    const [last] = await query<{ revision: string }>(`select coalesce(max(revision), 0) as revision from ${tables.jobSchedule}`);
    return work(query, Number(last!.revision) + 1);
  });
}
