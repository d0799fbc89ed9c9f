import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { isConflict, isLastWord, isReadOnly, isRefusal, isUseless } from '../../lib/database/sql-state.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';

let database: TestDatabase;
beforeAll(async () => void (database = await createTestDatabase()));
afterAll(() => database.drop());

/** As a server with lc_messages = de_DE says it. */
const german = (code: string, severity: string, message: string, more = {}) =>
  Object.assign(new Error(message), { code, severity, length: 100, ...more });

/** What a real server says, on a connection of its own. */
async function said(...statements: string[]): Promise<unknown> {
  const client = new pg.Client({ connectionString: database.url });
  client.on('error', () => {});
  await client.connect();
  let error: unknown;
  for (const statement of statements) await client.query(statement).catch((thrown: unknown) => (error = thrown));
  await client.end().catch(() => {});
  return error;
}

describe('what a server answers is told by its code, in whatever language it speaks', () => {
  it('a refusal, after which nothing of the statement is done', async () => {
    expect(isRefusal(german('22012', 'FEHLER', 'Division durch Null'))).toBe(true);
    expect(
      isRefusal({ driverError: german('23505', 'FEHLER', 'doppelter Schlüsselwert verletzt Unique-Constraint') }),
    ).toBe(true);
    expect(isRefusal(await said('select 1 / 0'))).toBe(true);
  });

  it('the last word of a session, after which nobody knows', async () => {
    expect(
      isRefusal(german('57P01', 'FATAL', 'Verbindung wird abgebrochen aufgrund von Anweisung des Administrators')),
    ).toBe(false);
    const last = await said('select pg_terminate_backend(pg_backend_pid())');
    expect([isLastWord(last), isRefusal(last), isUseless(last)]).toEqual([true, false, true]);
  });

  it('no answer at all, after which nobody knows', () => {
    for (const error of [
      Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }),
      Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }),
      new Error('Query read timeout'),
      null,
      'text',
    ]) {
      expect([isRefusal(error), isLastWord(error), isUseless(error)]).toEqual([false, false, false]);
    }
  });

  it('a session that takes no writes', async () => {
    expect(
      isReadOnly(german('25006', 'FEHLER', '»insert« kann nicht in einer Read-Only-Transaktion ausgeführt werden')),
    ).toBe(true);
    const error = await said('set default_transaction_read_only = on', 'create table none (id integer)');
    expect([isReadOnly(error), isRefusal(error), isUseless(error), isConflict(error)]).toEqual([
      true,
      true,
      true,
      false,
    ]);
  });
});
