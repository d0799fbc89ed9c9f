import type { DataSource, EntityManager, QueryRunner } from 'typeorm';
import { breakConnection, discardConnection } from '../connection/break-connection.js';
import { isUseless } from '../connection/sql-state.js';
import { sendTogether, type MessageClient, type Statement } from '../connection/statement.js';

/** How long an answer to a statement of the receipt's own is waited for, in milliseconds; it may have to wait for another receipt. */
export const PATIENCE_MS = 30_000;

/** Waits for a statement of the receipt's own. */
export type Bounded = <Result>(statement: Promise<Result>) => Promise<Result>;

/**
 * Does the work on a connection of the data source, which may be the application's. One that gives no answer to one of the receipt's
 * own statements is broken: its run would otherwise keep its lease and never end.
 */
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

/**
 * Sends one statement on the manager's connection: in the transaction that is under way there, or with one of its own around it, in one
 * message. That is read committed, whatever the default: what looks after it has waited must look afresh.
 */
export async function callAlone<Row>({ queryRunner }: EntityManager, statement: Statement): Promise<Row[]> {
  const client = (await queryRunner!.connect()) as MessageClient;
  if (queryRunner!.isTransactionActive) return (await sendTogether(client, [statement]))[0] as Row[];
  try {
    return (await sendTogether(client, ['begin isolation level read committed', statement, 'commit']))[1] as Row[];
  } catch (error) {
    await client.query('rollback').catch(() => {});
    throw error;
  }
}
