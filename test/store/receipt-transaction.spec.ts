import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { DataSource } from 'typeorm';
import { callAlone, onReceiptConnection } from '../../lib/database/transactions.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { Wire } from '../support/wire.js';

let test: TestDatabase;
let wire: Wire;
let dataSource: DataSource;

beforeEach(async () => {
  test = await createTestDatabase();
  wire = await Wire.to(test.url);
  dataSource = await new DataSource({
    type: 'postgres',
    url: wire.url,
    poolSize: 1,
    logging: false,
    poolErrorHandler: () => {},
  }).initialize();
  await dataSource.query('create table effects (what text)');
});
afterEach(async () => {
  await dataSource.destroy();
  wire.end();
  await test.drop();
});

const effects = () => test.query('select what from effects');
const insert = (what: string) => ({ text: 'insert into effects values ($1) returning what', values: [what] });
const send = (what: string, patienceMs?: number) =>
  onReceiptConnection(dataSource, ({ manager }, bounded) => bounded(callAlone(manager, insert(what))), patienceMs);

describe('a statement of a receipt that stands alone', () => {
  it('is a transaction by itself, read committed whatever the default is', async () => {
    await dataSource.query(
      `do $$ begin execute format('alter database %I set default_transaction_isolation = serializable', current_database()); end $$`,
    );
    await dataSource.destroy();
    await dataSource.initialize();
    const level = { text: `select current_setting('transaction_isolation') as level`, values: [] };
    expect(await onReceiptConnection(dataSource, ({ manager }) => callAlone(manager, level))).toEqual([
      { level: 'read committed' },
    ]);
    expect(await send('a')).toEqual([{ what: 'a' }]);
    expect(await effects()).toEqual([{ what: 'a' }]);
  });

  it('is part of a transaction that is under way', async () => {
    await expect(
      dataSource.transaction(async (manager) => {
        await callAlone(manager, insert('a'));
        throw new Error('no');
      }),
    ).rejects.toThrow('no');
    expect(await effects()).toEqual([]);
  });

  it('leaves its connection usable when it fails', async () => {
    await expect(
      onReceiptConnection(dataSource, ({ manager }) => callAlone(manager, { text: 'select 1 / 0', values: [] })),
    ).rejects.toMatchObject({ code: '22012' });
    expect(await send('next')).toEqual([{ what: 'next' }]);
  });

  it('on a line that falls silent ends with an error, and the next gets a new one', async () => {
    wire.silenceConnections();
    await expect(send('a', 300)).rejects.toThrow();
    await send('next');
    expect(await effects()).toEqual([{ what: 'next' }]);
  });
});
