import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import type { DataSource } from 'typeorm';
import { inOnePreparedMessage } from '../../lib/store/connection/one-message.js';
import { sessionOf } from '../../lib/store/connection/pg-session.js';
import { openStores, type Stores } from '../support/stores.js';

let stores: Stores;
beforeAll(async () => {
  stores = await openStores();
});
afterAll(() => stores.close());

/** A data source of one connection, which may pretend that its process id is a pooler's. */
async function onOne<Result>(work: (dataSource: DataSource, client: pg.Client) => Promise<Result>, { processID }: { processID?: number } = {}): Promise<Result> {
  const client = new pg.Client({ connectionString: stores.test.url });
  await client.connect();
  if (processID) Object.assign(client, { processID });
  const runner = { connect: async () => client, release: async () => {} };
  try {
    return await work({ createQueryRunner: () => runner } as unknown as DataSource, client);
  } finally {
    await client.end();
  }
}

const HELLO = { name: 'hello', sql: ([name]: readonly string[]) => `select ${name} ->> 'name' as name, current_setting('transaction_isolation') as isolation, pg_current_xact_id()::text as xact`, values: [{ name: "O'Neill" }] };

const prepared = (client: pg.Client) => client.query(`select name from pg_prepared_statements`).then(({ rows }) => rows.length);

describe('statements in one message', () => {
  it('are prepared once on a session of their own, and are one transaction', async () => {
    await onOne(async (dataSource, client) => {
      const first = await inOnePreparedMessage<{ name: string }>(dataSource, [HELLO]);
      expect(first).toMatchObject([{ name: "O'Neill", isolation: 'read committed' }]);
      expect(await prepared(client)).toBe(1);
      const twice = { ...HELLO, name: 'twice', sql: ([name]: readonly string[]) => `select pg_current_xact_id()::text as xact, ${name} as given` };
      await client.query('create table seen (xact text)');
      const keep = { name: 'keep', sql: () => 'insert into seen select pg_current_xact_id()::text returning xact', values: [] };
      const [{ xact }] = (await inOnePreparedMessage<{ xact: string }>(dataSource, [keep, twice])) as [{ xact: string }];
      expect((await client.query('select xact from seen')).rows).toEqual([{ xact }]);
      expect(await prepared(client)).toBe(3);
    });
  });

  it('leave nothing behind when one of them fails', async () => {
    await onOne(async (dataSource, client) => {
      await client.query('create table left_over (value integer)');
      const write = { name: 'write', sql: () => 'insert into left_over values (1)', values: [] };
      const fail = { name: 'fail', sql: ([zero]: readonly string[]) => `select 1 / (${zero} #>> '{}')::integer`, values: [0] };
      await expect(inOnePreparedMessage(dataSource, [write, fail])).rejects.toThrow('division by zero');
      expect((await client.query('select from left_over')).rowCount).toBe(0);
      expect(await inOnePreparedMessage(dataSource, [HELLO])).toHaveLength(1);
    });
  });

  it.each([
    ['the session is reset', 'discard all'],
    ['one is gone', 'deallocate "nestjs-distributed-cron value"'],
    ['a table gives another type', 'alter table changing alter column value type bigint'],
    ['somebody has prepared one of that name', 'deallocate all; prepare "nestjs-distributed-cron value" as select 1'],
  ])('are prepared anew when %s meanwhile', async (_what, meanwhile) => {
    await onOne(async (dataSource, client) => {
      await client.query('drop table if exists changing; create table changing as select 1 as value; create table if not exists calls (call integer)');
      const value = { name: 'value', sql: () => 'select value from changing', values: [] };
      const count = { name: 'count', sql: () => 'insert into calls values (1)', values: [] };
      const ask = () => inOnePreparedMessage<{ value: unknown }>(dataSource, [count, value]);
      await ask();
      await client.query(`truncate calls`);
      await client.query(meanwhile);
      expect(Number((await ask())[0]!.value)).toBe(1);
      expect(await ask()).toHaveLength(1);
      expect((await client.query('select from calls')).rowCount).toBe(2);
      expect(await prepared(client)).toBe(2);
    });
  });

  it('are not prepared behind a pooler, where the next message may meet another session', async () => {
    await onOne(
      async (dataSource, client) => {
        expect(await sessionOf(client)).toEqual({ isOwn: false, isReadCommitted: false });
        expect(await inOnePreparedMessage(dataSource, [HELLO])).toMatchObject([{ name: "O'Neill", isolation: 'read committed' }]);
        expect(await prepared(client)).toBe(0);
        expect((await client.query('show plan_cache_mode')).rows).toEqual([{ plan_cache_mode: 'auto' }]);
      },
      { processID: 1 },
    );
  });

  it('are read committed also where that is not the default', async () => {
    const [{ database }] = (await stores.test.query('select current_database() as database')) as [{ database: string }];
    await stores.test.query(`alter database ${database} set default_transaction_isolation = 'serializable'`);
    try {
      await onOne(async (dataSource) => {
        expect(await inOnePreparedMessage(dataSource, [HELLO])).toMatchObject([{ isolation: 'read committed' }]);
      });
    } finally {
      await stores.test.query(`alter database ${database} reset default_transaction_isolation`);
    }
  });
});
