import { randomBytes } from 'node:crypto';
import pg from 'pg';

/** A database of one test file's own. */
export interface TestDatabase {
  readonly url: string;
  /** The test's own look at it. */
  query<T extends object = Record<string, unknown>>(sql: string, params?: unknown[]): Promise<T[]>;
  /** Ends every connection to it and removes it. Never throws. */
  drop(): Promise<void>;
}

/** Makes an empty database on a server: the one that Jest's global setup started, or that of TEST_DATABASE_URL. */
export async function createTestDatabase(server = serverUrl()): Promise<TestDatabase> {
  const name = `test_${randomBytes(8).toString('hex')}`;
  await onServer(server, `create database ${name}`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  const pool = new pg.Pool({ connectionString: url.href, max: 4, allowExitOnIdle: true });
  // Connections that a test or the drop cuts off.
  pool.on('error', () => undefined);
  return {
    url: url.href,
    query: async <T>(sql: string, params: unknown[] = []) => (await pool.query(sql, params)).rows as T[],
    drop: async () => {
      await pool.end().catch(() => undefined);
      await onServer(server, `drop database if exists ${name} with (force)`).catch(() => undefined);
    },
  };
}

function serverUrl(): string {
  const url = process.env.TEST_DATABASE_URL;
  if (!url)
    throw new Error('TEST_DATABASE_URL is not set: run the tests with `npm test`, whose global setup starts a server.');
  return url;
}

async function onServer(server: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: server });
  client.on('error', () => undefined);
  try {
    await client.connect();
    await client.query(sql);
  } finally {
    await client.end().catch(() => undefined);
  }
}
