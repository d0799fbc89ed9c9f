import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import type { DataSource } from 'typeorm';
import { callFunction, inOneMessage } from '../../lib/store/connection/one-message.js';
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
  const query = async (sql: string, values: unknown[]) => (await client.query(sql, values)).rows;
  const runner = { connect: async () => client, release: async () => {}, query };
  try {
    return await work({ createQueryRunner: () => runner } as unknown as DataSource, client);
  } finally {
    await client.end();
  }
}

const hello = (dataSource: DataSource) =>
  inOneMessage<Record<string, unknown>>(dataSource, (json) => [
    'create temp table if not exists seen (xact text)',
    'insert into seen values (pg_current_xact_id()::text)',
    `select ${json({ name: "O'Neill" })} ->> 'name' as name, current_setting('transaction_isolation') as isolation, exists (select from seen where xact = pg_current_xact_id()::text) as together`,
  ]);

describe('statements in one message', () => {
  it('are one transaction', async () => {
    await onOne(async (dataSource) => {
      expect(await hello(dataSource)).toEqual([{ name: "O'Neill", isolation: 'read committed', together: true }]);
    });
  });

  it('leave nothing behind when one of them fails', async () => {
    await onOne(async (dataSource, client) => {
      await client.query('create table left_over (value integer)');
      await expect(inOneMessage(dataSource, (json) => ['insert into left_over values (1)', `select 1 / (${json(0)} #>> '{}')::integer`])).rejects.toThrow('division by zero');
      expect((await client.query('select from left_over')).rowCount).toBe(0);
      expect(await hello(dataSource)).toHaveLength(1);
    });
  });

  it('are read committed behind a pooler, where nothing is known of the session', async () => {
    await onOne(
      async (dataSource, client) => {
        expect(await sessionOf(client)).toEqual({ isOwn: false, isReadCommitted: false });
        expect(await hello(dataSource)).toMatchObject([{ name: "O'Neill", isolation: 'read committed' }]);
      },
      { processID: 1 },
    );
  });

  it('are read committed also where that is not the default', async () => {
    const [{ database }] = (await stores.test.query('select current_database() as database')) as [{ database: string }];
    await stores.test.query(`alter database ${database} set default_transaction_isolation = 'serializable'`);
    try {
      await onOne(async (dataSource) => {
        expect(await hello(dataSource)).toMatchObject([{ isolation: 'read committed' }]);
      });
    } finally {
      await stores.test.query(`alter database ${database} reset default_transaction_isolation`);
    }
  });
});

describe('the settings of a function', () => {
  it('are its own: nothing that a scheduler repeats leaves the session another planner', async () => {
    await onOne(async (dataSource, client) => {
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
