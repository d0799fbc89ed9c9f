import type { DataSource } from 'typeorm';
import { ask } from './query.js';
import { sessionOf, type PgSession } from './pg-session.js';

/** What a function of the database takes. Instants go as ISO 8601, JSON as text. */
export type FunctionValue = string | number | boolean | null | readonly (string | number | boolean | null)[];

/**
 * Calls a function of the database: one statement, so that no lock is held while this process is waited for. It reads
 * committed whatever the session's default is: what looks after it has taken a lock must look afresh.
 * @param name qualified
 * @returns its rows
 */
export async function callFunction<Row>(
  dataSource: DataSource,
  name: string,
  values: readonly FunctionValue[],
): Promise<Row[]> {
  const call = (given: readonly string[]) => `select * from ${name}(${given.join(', ')})`;
  const queryRunner = dataSource.createQueryRunner();
  try {
    const client = (await queryRunner.connect()) as PgSession;
    const { isReadCommitted } = await sessionOf(client);
    if (!isReadCommitted) return await readCommitted<Row>(client, call(values.map((value) => literal(value, client))));
    return [await ask(client, call(values.map((_, index) => `$${index + 1}`)), [...values])].flat()[0]!.rows as Row[];
  } finally {
    await queryRunner.release();
  }
}

/**
 * As one message, behind a pooler whose sessions begin with another level: a message of several statements takes no
 * parameters.
 */
async function readCommitted<Row>(client: PgSession, statement: string): Promise<Row[]> {
  try {
    const results = [await ask(client, `begin isolation level read committed;\n${statement};\ncommit`)].flat();
    return results.at(-2)!.rows as Row[];
  } catch (error) {
    await client.query('rollback').catch(() => {});
    throw error;
  }
}

function literal(value: FunctionValue, client: PgSession): string {
  if (value === null || typeof value === 'boolean') return String(value);
  return client.escapeLiteral(typeof value === 'object' ? arrayLiteral(value) : String(value));
}

/** In quotes, so that an entry that is empty, or the word null, is one. */
function arrayLiteral(values: readonly (string | number | boolean | null)[]): string {
  return `{${values.map((value) => (value === null ? 'null' : `"${String(value).replace(/["\\]/g, '\\$&')}"`)).join(',')}}`;
}
