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
  await query(
    `select set_config('idle_in_transaction_session_timeout', $3, true),
            pg_advisory_xact_lock(hashtextextended($1 || name, 0))
     from   unnest($2::text[]) with ordinality as wanted (name, position)
     order  by position`,
    [prefix, [...names].sort(), String(MOST_IDLE_MS)],
  );
}
