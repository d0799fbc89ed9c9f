import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { DataSource } from 'typeorm';
import { clientWithPatience } from '../../lib/store/connection/patient-client.js';
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
    extra: { Client: clientWithPatience(300) },
  }).initialize();
});
afterEach(async () => {
  await dataSource.destroy();
  wire.end();
  await test.drop();
});

describe('trap 13: a database that is cut off without a word', () => {
  it('fails what waits for it, and the next statement gets a new connection', async () => {
    await dataSource.query('select 1');
    wire.silenceConnections();
    await expect(dataSource.query('select 2')).rejects.toThrow('Query read timeout');
    expect(await dataSource.query('select 3 as three')).toEqual([{ three: 3 }]);
  });

  it('leaves alone what is merely refused', async () => {
    await expect(dataSource.query('select nothing')).rejects.toThrow(/nothing/);
    expect(await dataSource.query('select 3 as three')).toEqual([{ three: 3 }]);
  });
});
