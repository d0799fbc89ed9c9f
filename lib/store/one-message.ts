import type { DataSource } from 'typeorm';

/** What pg offers on a connection for statements that carry their values in their text. */
interface PgClient {
  query(text: string): Promise<{ rows: unknown[] }[]>;
  escapeLiteral(text: string): string;
}

/**
 * Runs statements in one transaction that is sent as one message: the server goes through them and commits by itself.
 * A process that is frozen or whose event loop is blocked meanwhile holds no lock open, and it costs one round trip. Each
 * statement sees what was committed before it began, so one that looks after a lock was taken looks afresh; therefore
 * read committed, whatever the database's default.
 *
 * @param write gets a function that quotes a value as a JSON literal, and returns the statements
 * @returns the rows of the last statement
 */
export async function inOneMessage<Row>(dataSource: DataSource, write: (json: (value: unknown) => string) => readonly string[]): Promise<Row[]> {
  const queryRunner = dataSource.createQueryRunner();
  try {
    const client = (await queryRunner.connect()) as PgClient;
    const statements = write((value) => `${client.escapeLiteral(JSON.stringify(value))}::jsonb`);
    try {
      const results = await client.query(['begin isolation level read committed', ...statements, 'commit'].join(';\n'));
      return results.at(-2)!.rows as Row[];
    } catch (error) {
      await client.query('rollback').catch(() => {});
      throw error;
    }
  } finally {
    await queryRunner.release();
  }
}
