import type { DataSource, EntityManager, QueryRunner } from 'typeorm';
import { breakConnection, discardConnection } from '../connection/break-connection.js';
import { isUseless } from '../connection/sql-state.js';

/** How long an answer to a statement of the receipt's own is waited for, in milliseconds; it may have to wait for another receipt. */
export const PATIENCE_MS = 30_000;

/** Waits for a statement of the receipt's own. */
export type Bounded = <Result>(statement: Promise<Result>) => Promise<Result>;

/**
 * Runs a receipt's transaction on the data source, which may be the application's. A connection that gives no answer to
 * one of the receipt's own statements is broken: its run would otherwise keep its lease and never end.
 */
export async function inReceiptTransaction<Result>(
  dataSource: DataSource,
  work: (manager: EntityManager, bounded: Bounded) => Promise<Result>,
  patienceMs = PATIENCE_MS,
): Promise<Result> {
  return onReceiptConnection(dataSource, async (queryRunner, bounded) => {
    // Read committed, whatever the default: the end must see the lease as heartbeats have renewed it meanwhile.
    await bounded(queryRunner.startTransaction('READ COMMITTED'));
    try {
      const result = await work(queryRunner.manager, bounded);
      await bounded(queryRunner.commitTransaction());
      return result;
    } catch (error) {
      await bounded(queryRunner.rollbackTransaction()).catch(() => {});
      throw error;
    }
  }, patienceMs);
}

/** Does the work on a connection of its own, as {@link inReceiptTransaction} does, without a transaction around it. */
export async function onReceiptConnection<Result>(
  dataSource: DataSource,
  work: (queryRunner: QueryRunner, bounded: Bounded) => Promise<Result>,
  patienceMs = PATIENCE_MS,
): Promise<Result> {
  const queryRunner = dataSource.createQueryRunner();
  try {
    const client: unknown = await queryRunner.connect();
    return await work(queryRunner, (statement) => orBreak(client, statement, patienceMs)).catch((error: unknown) => {
      if (isUseless(error)) discardConnection(client);
      throw error;
    });
  } finally {
    await queryRunner.release();
  }
}

/** Waits for the statement, and breaks the connection when its answer does not come. */
export async function orBreak<Result>(client: unknown, statement: Promise<Result>, patienceMs: number): Promise<Result> {
  const impatience = setTimeout(() => {
    breakConnection(client, new Error(`The database gave a receipt no answer for ${patienceMs / 1_000} s.`));
  }, patienceMs);
  impatience.unref();
  try {
    return await statement;
  } finally {
    clearTimeout(impatience);
  }
}
