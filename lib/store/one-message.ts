import type { DataSource } from 'typeorm';
import { preparedOn, sessionOf, type PgSession, type PreparableStatement } from './pg-session.js';

/** A statement and the values that it carries as JSON. */
export interface JsonStatement extends PreparableStatement {
  readonly values: readonly unknown[];
}

/**
 * Runs statements in one transaction that is sent as one message: the server goes through them and commits by itself.
 * A process that is frozen or whose event loop is blocked meanwhile holds no lock open, and it costs one round trip. Each
 * statement sees what was committed before it began, so one that looks after a lock was taken looks afresh; therefore
 * read committed, whatever the database's default.
 *
 * On a session of its own each statement is prepared once: planning it takes the database longer than carrying it out. And
 * a message is a transaction by itself there, if read committed is what its sessions begin with.
 *
 * @returns the rows of the last statement
 */
export async function inOneMessage<Row>(dataSource: DataSource, statements: readonly JsonStatement[]): Promise<Row[]> {
  const queryRunner = dataSource.createQueryRunner();
  try {
    const client = (await queryRunner.connect()) as PgSession;
    const session = await sessionOf(client);
    const json = (value: unknown) => `${client.escapeLiteral(JSON.stringify(value))}::jsonb`;
    const calls = session.isOwn ? await preparedOn(client, statements) : statements.map(({ sql }) => (values: readonly string[]) => sql(values));
    const texts = statements.map(({ values }, index) => calls[index]!(values.map(json)));
    try {
      const message = session.isReadCommitted ? texts : ['begin isolation level read committed', ...texts, 'commit'];
      const results = [await client.query(message.join(';\n'))].flat();
      return results.at(session.isReadCommitted ? -1 : -2)!.rows as Row[];
    } catch (error) {
      await client.query('rollback').catch(() => {});
      throw error;
    }
  } finally {
    await queryRunner.release();
  }
}
