import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { DataSource } from 'typeorm';
import { inReceiptTransaction } from '../../lib/store/receipts/receipt-transaction.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { Wire } from '../support/wire.js';

let test: TestDatabase;
let wire: Wire;
let dataSource: DataSource;

beforeEach(async () => {
  test = await createTestDatabase();
  wire = await Wire.to(test.url);
  dataSource = await new DataSource({ type: 'postgres', url: wire.url, poolSize: 1, logging: false, poolErrorHandler: () => {} }).initialize();
  await dataSource.query('create table effects (what text)');
});
afterEach(async () => {
  await dataSource.destroy();
  wire.end();
  await test.drop();
});

const effects = () => test.query('select what from effects');

describe('a receipt’s transaction', () => {
  it('commits what went through its manager, or nothing', async () => {
    await inReceiptTransaction(dataSource, (manager) => manager.query(`insert into effects values ('a')`));
    const failing = inReceiptTransaction(dataSource, async (manager) => {
      await manager.query(`insert into effects values ('b')`);
      throw new Error('no');
    });
    await expect(failing).rejects.toThrow('no');
    expect(await effects()).toEqual([{ what: 'a' }]);
  });

  it.each(['begin', 'a statement of its own', 'commit'])('on a line that falls silent before %s ends with an error, and the next gets a new one', async (where) => {
    if (where === 'begin') wire.silenceConnections();
    const silenced = inReceiptTransaction(
      dataSource,
      async (manager, bounded) => {
        if (where !== 'begin') wire.silenceConnections();
        if (where === 'a statement of its own') await bounded(manager.query('select 1'));
      },
      300,
    );
    await expect(silenced).rejects.toThrow();
    await inReceiptTransaction(dataSource, (manager) => manager.query(`insert into effects values ('next')`));
    expect(await effects()).toEqual([{ what: 'next' }]);
  });
});
