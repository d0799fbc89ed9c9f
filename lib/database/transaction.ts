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
const MOST_IDLE_MS = 1_000;

/**
 * Holds a name until the transaction ends, waiting for whoever holds it. Transaction-level, so that it works behind a
 * pooler that hands the connection to somebody else after each transaction. A process that is frozen while it holds the
 * name loses it: the server ends its transaction, and everybody else goes on.
 */
export async function lockName(query: Query, name: string): Promise<void> {
  await query(
    `select set_config('idle_in_transaction_session_timeout', $2, true),
            pg_advisory_xact_lock(hashtextextended($1, 0))`,
    [name, String(MOST_IDLE_MS)],
  );
}
