import type { EntityManager, QueryRunner } from 'typeorm';
import { sendTogether, type MessageClient, type Statement } from './statement.js';

const SAVEPOINT = 'distributed_cron_receipt';

/** A transaction of the application's that receipts join. */
export type JoinedManager = EntityManager & { readonly queryRunner: QueryRunner };

/** One receipt in it. */
export interface JoinedReceipt {
  /** False: under way is a stricter level, whose snapshot does not show what heartbeats have renewed since. */
  readonly readCommitted: boolean;
  /** @returns the rows of each */
  send(statements: readonly Statement[]): Promise<unknown[][]>;
}

/**
 * Runs the work in a part of the application's transaction that is taken back alone when the work fails: a receipt whose
 * effect failed must not be committed by somebody who caught the error. The transaction itself is the application's to end.
 */
export async function inJoinedTransaction<Result>({ queryRunner }: JoinedManager, work: (receipt: JoinedReceipt) => Promise<Result>): Promise<Result> {
  const client = (await queryRunner.connect()) as MessageClient;
  const [, [level]] = (await sendTogether(client, [`savepoint ${SAVEPOINT}`, `select current_setting('transaction_isolation') as level`])) as [unknown, [{ level: string }]];
  try {
    const result = await work({ readCommitted: level.level === 'read committed', send: (statements) => sendTogether(client, statements) });
    await client.query(`release savepoint ${SAVEPOINT}`);
    return result;
  } catch (error) {
    // The first error counts: where the connection is gone, or the application has ended its transaction, this one fails, too.
    await client.query(`rollback to savepoint ${SAVEPOINT}; release savepoint ${SAVEPOINT}`).catch(() => {});
    throw error;
  }
}
