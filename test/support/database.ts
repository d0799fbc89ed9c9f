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

/** Makes an empty database on the server that Jest's global setup started, or on TEST_DATABASE_URL. */
export async function createTestDatabase(): Promise<TestDatabase> {
  const name = `test_${randomBytes(8).toString('hex')}`;
  await onServer(`create database ${name}`);
  const url = new URL(serverUrl());
  url.pathname = `/${name}`;
  const pool = new pg.Pool({ connectionString: url.href, max: 4, allowExitOnIdle: true });
  // Connections that a test or the drop cuts off.
  pool.on('error', () => undefined);
  return {
    url: url.href,
    query: async <T>(sql: string, params: unknown[] = []) => (await pool.query(sql, params)).rows as T[],
    drop: async () => {
      await pool.end().catch(() => undefined);
      await onServer(`drop database if exists ${name} with (force)`).catch(() => undefined);
    },
  };
}

function serverUrl(): string {
  const url = process.env.TEST_DATABASE_URL;
  if (!url) throw new Error('TEST_DATABASE_URL is not set: run the tests with `npm test`, whose global setup starts a server.');
  return url;
}

async function onServer(sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: serverUrl() });
  client.on('error', () => undefined);
  try {
    await client.connect();
    await client.query(sql);
  } finally {
    await client.end().catch(() => undefined);
  }
}
