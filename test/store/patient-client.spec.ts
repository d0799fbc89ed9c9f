import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { DataSource } from 'typeorm';
import { GuardedClient, clientWithPatience } from '../../lib/database/clients.js';
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

describe('a connection on its way from the pool to whoever takes it', () => {
  it.each([
    ['of the coordination', clientWithPatience(300)],
    ['of receipts, and of BullMQ', GuardedClient],
  ])('%s does not end the process when the server goes away', async (_whose, Client) => {
    const client = new Client({ connectionString: test.url });
    await client.connect();
    const over = new Promise((resolve) => client.once('end', resolve));
    // Nobody has put a listener to its errors yet.
    await test.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid = $1`,
      [(client as unknown as { processID: number }).processID],
    );
    await over;
    await expect(client.query('select 1')).rejects.toThrow();
  });
});
