import type { DataSource, QueryRunner } from 'typeorm';
import { queryOn } from './query.js';
import { sessionOf, type PgSession, type SessionFacts } from './pg-session.js';

/** SQL for a value, as a JSON literal. */
type Json = (value: unknown) => string;

/**
 * Runs statements in one transaction that is sent as one message: the server goes through them and commits by itself.
 * A process that is frozen or whose event loop is blocked meanwhile holds no lock open, and it costs one round trip. Each
 * statement sees what was committed before it began, so one that looks after a lock was taken looks afresh; therefore
 * read committed, whatever the database's default.
 *
 * @param write gets a function that quotes a value as a JSON literal, and returns the statements
 * @returns the rows of the last statement
 */
export function inOneMessage<Row>(dataSource: DataSource, write: (json: Json) => readonly string[]): Promise<Row[]> {
  return onSession(dataSource, async (client, session, json) => send<Row>(client, session, write(json)));
}

/** What a function of the database takes. Instants go as ISO 8601, JSON as text. */
export type FunctionValue = string | number | boolean | null | readonly (string | number | boolean | null)[];

/**
 * Calls a function of the database: one statement, so that no lock is held while this process is waited for. It reads committed
 * whatever the session's default is: what looks after it has taken a lock must look afresh.
 * @param name qualified
 * @returns its rows
 */
export function callFunction<Row>(dataSource: DataSource, name: string, values: readonly FunctionValue[]): Promise<Row[]> {
  const call = (given: readonly string[]) => `select * from ${name}(${given.join(', ')})`;
  return onSession(dataSource, async (client, session, _, queryRunner) => {
    if (!session.isReadCommitted) return send<Row>(client, session, [call(values.map((value) => literal(value, client)))]);
    return queryOn(queryRunner)<Row>(call(values.map((_, index) => `$${index + 1}`)), [...values]);
  });
}

function literal(value: FunctionValue, client: PgSession): string {
  if (value === null || typeof value === 'boolean') return String(value);
  return client.escapeLiteral(typeof value === 'object' ? arrayLiteral(value) : String(value));
}

/** In quotes, so that an entry that is empty, or the word null, is one. */
function arrayLiteral(values: readonly (string | number | boolean | null)[]): string {
  return `{${values.map((value) => (value === null ? 'null' : `"${String(value).replace(/["\\]/g, '\\$&')}"`)).join(',')}}`;
}

async function onSession<Result>(dataSource: DataSource, work: (client: PgSession, session: SessionFacts, json: Json, queryRunner: QueryRunner) => Promise<Result>): Promise<Result> {
  const queryRunner = dataSource.createQueryRunner();
  try {
    const client = (await queryRunner.connect()) as PgSession;
    const json: Json = (value) => `${client.escapeLiteral(JSON.stringify(value))}::jsonb`;
    return await work(client, await sessionOf(client), json, queryRunner);
  } finally {
    await queryRunner.release();
  }
}

/** Where read committed is what a session begins with, a message is such a transaction by itself. */
async function send<Row>(client: PgSession, { isReadCommitted }: SessionFacts, statements: readonly string[]): Promise<Row[]> {
  const message = isReadCommitted ? statements : ['begin isolation level read committed', ...statements, 'commit'];
  try {
    const results = [await client.query(message.join(';\n'))].flat();
    return results.at(isReadCommitted ? -1 : -2)!.rows as Row[];
  } catch (error) {
    await client.query('rollback').catch(() => {});
    throw error;
  }
}
