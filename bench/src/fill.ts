import type pg from 'pg';
import type { ReceiptService } from '../../dist/lib/index.js';
import type { Figure } from './benchmark.js';
import { onConnection, onServer } from './database.js';
import { inOneRun } from './one-run.js';

type Write = (client: pg.Client, receipts: ReceiptService, names: readonly string[]) => Promise<unknown>;

/**
 * How rows get into the tables beside that of the runs. Receipts: once and for all, with a result that is added at the
 * end, and around a call outside.
 */
const WAYS: Readonly<Record<string, { table: 'receipts' | 'job_pages'; write: Write }>> = {
  'receipt-plain': {
    table: 'receipts',
    write: (_, receipts, names) => receipts.onceBatch(names, async () => {}, { batch: 100 }),
  },
  'receipt-kept': {
    table: 'receipts',
    write: (_, receipts, names) => each(names, (name) => receipts.once(name, async () => ({ invoiceId: name }))),
  },
  'receipt-external': {
    table: 'receipts',
    write: (_, receipts, names) =>
      each(names, (name) => receipts.onceExternal(name, async () => {}, { inDoubt: 'park' })),
  },
  page: { table: 'job_pages', write: publishAndWork },
};

/** Bytes of a row in its table, with the fill factor given or as partitions are made. */
export async function fillFigures(fillFactor: number | 'as-made', count: number): Promise<Figure[]> {
  return onServer((url) =>
    onConnection(url, async (client) => {
      const figures: Figure[] = [];
      await inOneRun({ connection: url }, async (receipts) => {
        for (const [name, { table, write }] of Object.entries(WAYS)) {
          await client.query(`truncate ${table}`);
          const settings = [
            'autovacuum_enabled = off',
            ...(fillFactor === 'as-made' ? [] : [`fillfactor = ${fillFactor}`]),
          ];
          for (const partition of await partitions(client, table))
            await client.query(`alter table ${partition} set (${settings.join()})`);
          await write(
            client,
            receipts,
            Array.from({ length: count }, (_, index) => `customer ${index}`),
          );
          const { bytes, row, rows } = await sizes(client, table);
          if (rows !== count) throw new Error(`${rows} of ${count} rows were written.`);
          figures.push({
            name: `vacuum.${name}-${fillFactor}`,
            value: bytes / count,
            unit: 'bytes',
            floor: row,
            reach: 2 * row,
          });
        }
      });
      return figures;
    }),
  );
}

/** What becomes of pages: published together, handed over, and then each begun and ended. */
async function publishAndWork(client: pg.Client, _: unknown, names: readonly string[]): Promise<void> {
  const fireTime = new Date(Math.floor(Date.now() / 60_000) * 60_000).toISOString();
  await client.query(
    `insert into job_pages (job_name, fire_time, page, next_attempt_at) select 'bench', $2, name, now() from unnest($1::text[]) name`,
    [names, fireTime],
  );
  await client.query('update job_pages set enqueued_at = now()');
  for (const name of names) {
    await client.query(
      `update job_pages set status = 'running', attempt = 1, claimed_by = 'host-1234-abcdef12', started_at = now(), next_attempt_at = null where page = $1 and job_name = 'bench' and fire_time = $2`,
      [name, fireTime],
    );
    await client.query(
      `update job_pages set status = 'done', finished_at = now() where page = $1 and job_name = 'bench' and fire_time = $2`,
      [name, fireTime],
    );
  }
}

async function each(names: readonly string[], write: (name: string) => Promise<unknown>): Promise<void> {
  for (const name of names) await write(name);
}

async function partitions(client: pg.Client, table: string): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    'select relid::regclass::text as name from pg_partition_tree($1::regclass) where isleaf',
    [table],
  );
  return rows.map(({ name }) => name);
}

async function sizes(client: pg.Client, table: string): Promise<{ bytes: number; row: number; rows: number }> {
  const { rows } = await client.query<{ bytes: number; row: number; rows: number }>(
    `select (select sum(pg_relation_size(relid))::float8 from pg_partition_tree('${table}') where isleaf) as bytes,
             avg(pg_column_size(${table}))::float8 as row, count(*)::integer as rows
     from   ${table}`,
  );
  return rows[0]!;
}
