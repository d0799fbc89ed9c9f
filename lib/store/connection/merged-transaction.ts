import type { DataSource, EntityManager, QueryRunner } from 'typeorm';
import { PATIENCE_MS, orBreak, type Bounded } from '../receipts/receipt-transaction.js';
import { discardConnection } from './break-connection.js';
import { isUseless } from './sql-state.js';
import { sendTogether, type MessageClient, type Statement } from './statement.js';

/** What became of a transaction's work: how it is ended, and its result. */
export interface MergedEnd<Result> {
  /** Statements that go with the commit, before it; null rolls back, for there is nothing to keep. */
  readonly closing: readonly Statement[] | null;
  readonly result: Result;
}

/**
 * Runs the work in a transaction whose beginning goes to the server together with its first statements, and whose commit
 * together with its last: the receipt costs no way to the server of its own. TypeORM knows of the transaction, so that
 * nested ones are savepoints and its subscribers hear of it. Read committed, whatever the default: the end must see the
 * lease as heartbeats have renewed it meanwhile.
 *
 * @param work is given the rows of each opening statement
 */
export async function inMergedTransaction<Result>(
  dataSource: DataSource,
  opening: readonly Statement[],
  work: (manager: EntityManager, rows: unknown[][], bounded: Bounded) => Promise<MergedEnd<Result>>,
  patienceMs = PATIENCE_MS,
): Promise<Result> {
  const queryRunner = dataSource.createQueryRunner();
  try {
    const client = (await queryRunner.connect()) as MessageClient;
    const bounded: Bounded = (statement) => orBreak(client, statement, patienceMs);
    const ends = new MergedEnds(queryRunner, client);
    try {
      const rows = await bounded(ends.begin(opening));
      const { closing, result } = await work(queryRunner.manager, rows, bounded);
      await bounded(closing === null ? queryRunner.rollbackTransaction() : ends.commit(closing));
      return result;
    } catch (error) {
      await bounded(ends.rollback()).catch(() => {});
      if (isUseless(error)) discardConnection(client);
      throw error;
    }
  } finally {
    await queryRunner.release();
  }
}

/** Puts the receipt's statements in the place of TypeORM's `START TRANSACTION` and `COMMIT`. */
class MergedEnds {
  private readonly send: QueryRunner['query'];
  private began: unknown[][] | null = null;
  private closing: readonly Statement[] | null = null;

  constructor(
    private readonly queryRunner: QueryRunner,
    private readonly client: MessageClient,
  ) {
    this.send = queryRunner.query.bind(queryRunner);
  }

  async begin(opening: readonly Statement[]): Promise<unknown[][]> {
    const instead = async (sql: string, ...rest: unknown[]): Promise<unknown> => {
      if (sql === 'START TRANSACTION' && !this.began) {
        const [, ...rows] = await sendTogether(this.client, ['begin isolation level read committed', ...opening]);
        this.began = rows;
      } else if (sql === 'COMMIT') await this.end();
      // It has been begun with its level, and a level comes too late after the first statement.
      else if (!/^SET TRANSACTION ISOLATION LEVEL/.test(sql)) return (this.send as (...all: unknown[]) => Promise<unknown>)(sql, ...rest);
      return [];
    };
    this.queryRunner.query = instead as QueryRunner['query'];
    await this.queryRunner.startTransaction('READ COMMITTED');
    // A TypeORM that begins in other words would have begun alone.
    this.began ??= await sendTogether(this.client, opening);
    return this.began;
  }

  async commit(closing: readonly Statement[]): Promise<void> {
    this.closing = closing;
    await this.queryRunner.commitTransaction();
    if (this.closing) throw new Error('This version of TypeORM commits in a way that nestjs-distributed-cron does not know.');
  }

  async rollback(): Promise<void> {
    if (this.queryRunner.isTransactionActive) await this.queryRunner.rollbackTransaction();
    else await this.client.query('rollback');
  }

  private async end(): Promise<void> {
    if (!this.closing) throw new Error('An effect must leave its transaction open: it is committed with its receipt.');
    // A commit after a failed statement is a rollback without an error; a select is not.
    await sendTogether(this.client, [...(this.closing.length > 0 ? this.closing : ['select']), 'commit']);
    this.closing = null;
  }
}
