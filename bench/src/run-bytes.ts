import type pg from 'pg';
import { walPosition } from './database.js';
import { doLoad } from './load.js';

/** What a run leaves behind, in bytes. */
export interface RunBytes {
  readonly table: number;
  readonly indexes: number;
  readonly log: number;
}

/** Of runs that are claimed 100 at a time and ended in groups; and of the same rows in a bare table with one key. */
export async function bytesOfRuns(
  client: pg.Client,
  url: string,
  runs: number,
): Promise<{ ours: RunBytes; bare: RunBytes }> {
  const ours = await costOf(
    client,
    'job_runs',
    runs,
    async () => void (await doLoad({ url, runs, batch: 100, renewals: 0, overlap: 'allow' })),
  );
  const bare = await costOf(client, 'bare_runs', runs, () => bareRuns(client, runs));
  return { ours, bare };
}

async function costOf(client: pg.Client, table: string, runs: number, work: () => Promise<void>): Promise<RunBytes> {
  const before = await walPosition(client);
  await work();
  const log = (await walPosition(client)) - before;
  await client.query(`vacuum ${table}`);
  const { rows } = await client.query<{ heap: number; indexes: number }>(
    `select sum(pg_table_size(relid))::float8 as heap, sum(pg_indexes_size(relid))::float8 as indexes
     from   pg_partition_tree($1::regclass)
     where  isleaf`,
    [table],
  );
  const { heap, indexes } = rows[0]!.heap === null ? await sizesOf(client, table) : rows[0]!;
  return { table: heap / runs, indexes: indexes / runs, log: log / runs };
}

async function sizesOf(client: pg.Client, table: string): Promise<{ heap: number; indexes: number }> {
  const { rows } = await client.query<{ heap: number; indexes: number }>(
    'select pg_table_size($1::regclass)::float8 as heap, pg_indexes_size($1::regclass)::float8 as indexes',
    [table],
  );
  return rows[0]!;
}

async function bareRuns(client: pg.Client, runs: number): Promise<void> {
  await client.query(
    'create table bare_runs (job_name text, fire_time timestamptz, owner text, finished_at timestamptz, primary key (job_name, fire_time)) with (fillfactor = 70)',
  );
  for (let from = 0; from < runs; from += 100) {
    await client.query(
      `insert into bare_runs
       select 'history-' || n % 100, now() - n / 100 * interval '1 second', 'host-1234-abcdef12'
       from   generate_series($1::integer, $2::integer) as n`,
      [from, from + 99],
    );
    await client.query('update bare_runs set finished_at = clock_timestamp() where finished_at is null');
  }
}
