import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import type { DataSource } from 'typeorm';
import { callFunction } from '../../lib/database/scheduler-database.js';
import { sessionOf } from '../../lib/database/clients.js';
import { openStores, type Stores } from '../support/stores.js';

let stores: Stores;
beforeAll(async () => {
  stores = await openStores();
});
afterAll(() => stores.close());

/** A data source of one connection, which may pretend that its process id is a pooler's. */
async function onOne<Result>(
  work: (dataSource: DataSource, client: pg.Client) => Promise<Result>,
  { processID }: { processID?: number } = {},
): Promise<Result> {
  const client = new pg.Client({ connectionString: stores.test.url });
  await client.connect();
  if (processID) Object.assign(client, { processID });
  const query = async (sql: string, values: unknown[]) => (await client.query(sql, values)).rows;
  const runner = { connect: async () => client, release: async () => {}, query };
  try {
    return await work({ createQueryRunner: () => runner } as unknown as DataSource, client);
  } finally {
    await client.end();
  }
}

/** A function that says what it was given, and whether a later call would see its transaction. */
beforeAll(() =>
  stores.test.query(`
    create function hello_1(name text, names text[], counts integer[]) returns table (given text, listed text[], counted integer[], isolation text)
    language sql volatile as $$ select name, names, counts, current_setting('transaction_isolation') $$`),
);

const GIVEN = `O'Neill "the \\ one"`;
const hello = (dataSource: DataSource) =>
  callFunction<Record<string, unknown>>(dataSource, 'public.hello_1', [
    GIVEN,
    ['a,b', '', 'null', null, GIVEN],
    [1, null],
  ]);
const HELLO = {
  given: GIVEN,
  listed: ['a,b', '', 'null', null, GIVEN],
  counted: [1, null],
  isolation: 'read committed',
};

describe('calls of functions', () => {
  it('take their values as they are', async () => {
    await onOne(async (dataSource) => {
      expect(await hello(dataSource)).toEqual([HELLO]);
    });
  });

  it('are read committed behind a pooler, where nothing is known of the session', async () => {
    await onOne(
      async (dataSource, client) => {
        expect(await sessionOf(client)).toEqual({ isOwn: false, isReadCommitted: false });
        expect(await hello(dataSource)).toEqual([HELLO]);
      },
      { processID: 1 },
    );
  });

  it('are read committed also where that is not the default', async () => {
    const [{ database }] = (await stores.test.query('select current_database() as database')) as [{ database: string }];
    await stores.test.query(`alter database ${database} set default_transaction_isolation = 'serializable'`);
    try {
      await onOne(async (dataSource) => {
        expect(await hello(dataSource)).toEqual([HELLO]);
      });
    } finally {
      await stores.test.query(`alter database ${database} reset default_transaction_isolation`);
    }
  });
});

describe('the settings of a function', () => {
  it('are its own: nothing that a scheduler repeats leaves the session another planner', async () => {
    await onOne(async (dataSource, client) => {
      await sessionOf(client);
      for (const setting of ['jit', 'enable_seqscan', 'plan_cache_mode']) {
        const show = async () => (await client.query(`select current_setting('${setting}') as value`)).rows;
        const before = await show();
        await callFunction(dataSource, 'public.job_run_outlook_1', [['a', 'b']]);
        await callFunction(dataSource, 'public.job_run_claim_1', ['[]', 'A', 1]);
        expect(await show()).toEqual(before);
      }
    });
  });
});
