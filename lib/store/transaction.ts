import type { DataSource, QueryRunner } from 'typeorm';
import { queryOn, type Query } from './query.js';

/**
 * Runs the work in one transaction. It is read committed whatever the database's default: a claim locks first and then
 * looks again, and under a stricter level the second look would still see the first one's snapshot.
 */
export async function inTransaction<Result>(
  dataSource: DataSource,
  work: (query: Query, queryRunner: QueryRunner) => Promise<Result>,
): Promise<Result> {
  const queryRunner = dataSource.createQueryRunner();
  try {
    await queryRunner.query('begin isolation level read committed');
    try {
      const result = await work(queryOn(queryRunner), queryRunner);
      await queryRunner.query('commit');
      return result;
    } catch (error) {
      await queryRunner.query('rollback').catch(() => {});
      throw error;
    }
  } finally {
    await queryRunner.release();
  }
}

/** How long a transaction that holds a lock may do nothing, in milliseconds, before the server ends it. */
const MOST_IDLE_MS = 5_000;

/**
 * Holds names until the transaction ends. Transaction-level, so that it works behind a pooler that hands the connection
 * to somebody else after each transaction. Taken in the order of the names: two replicas that take the same ones in
 * different orders would wait for each other. A process that is frozen while it holds them loses them: the server ends
 * its transaction, and everybody else goes on.
 */
export async function lockNames(query: Query, prefix: string, names: readonly string[]): Promise<void> {
  await query(lockStatement('$1::jsonb'), [JSON.stringify({ prefix, names: [...names].sort() })]);
}

/** @param wanted SQL for a jsonb with `prefix` and sorted `names` */
export function lockStatement(wanted: string): string {
  return `
    select set_config('idle_in_transaction_session_timeout', '${MOST_IDLE_MS}', true),
           pg_advisory_xact_lock(hashtextextended((${wanted} ->> 'prefix') || name, 0))
    from   jsonb_array_elements_text(${wanted} -> 'names') with ordinality as wanted (name, position)
    order  by position`;
}
