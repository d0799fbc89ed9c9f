import pg from 'pg';
import { startEmbeddedServer } from '../../dist/lib/database/embedded-server.js';

/** A PostgreSQL server of this run's own, on this machine and with `fsync` off; gone when the work has ended. */
export async function onServer<Result>(
  work: (url: string) => Promise<Result>,
  flags: readonly string[] = [],
): Promise<Result> {
  const server = await startEmbeddedServer({
    postgresFlags: [
      '-c',
      'shared_preload_libraries=pg_stat_statements',
      '-c',
      'pg_stat_statements.track_planning=on',
      '-c',
      'max_connections=300',
      ...flags,
    ],
  });
  try {
    return await work(server.url);
  } finally {
    await server.stop();
  }
}

/** Rows of a select, on a connection of its own. */
export async function onConnection<Result>(url: string, work: (client: pg.Client) => Promise<Result>): Promise<Result> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** An empty database on the server. @returns its address */
export async function newDatabase(server: string, name: string): Promise<string> {
  await onConnection(server, (client) => client.query(`create database ${name}`));
  return Object.assign(new URL(server), { pathname: `/${name}` }).href;
}

/** How much was ever written to the log, in bytes. */
export async function walPosition(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ bytes: number }>(
    `select (pg_current_wal_insert_lsn() - '0/0')::float8 as bytes`,
  );
  return rows[0]!.bytes;
}

/**
 * Counts what the server was asked, by whoever asked: each statement of a message by itself, `begin` and `commit` too.
 */
export class StatementCount {
  private constructor(private readonly client: pg.Client) {}

  static async on(client: pg.Client): Promise<StatementCount> {
    await client.query('create extension if not exists pg_stat_statements');
    return new StatementCount(client);
  }

  async reset(): Promise<void> {
    await this.client.query('select pg_stat_statements_reset()');
  }

  /** Since the last reset, the questions of this count left out. */
  async read(): Promise<number> {
    const { rows } = await this.client.query<{ calls: number }>(
      `select coalesce(sum(calls), 0)::integer as calls
       from   pg_stat_statements
       where  toplevel
       and    query not like '%pg_stat_statements%'`,
    );
    return rows[0]!.calls;
  }

  /** What was asked most since the last reset, for people who wonder. */
  async most(limit = 10): Promise<object[]> {
    const { rows } = await this.client.query<object>(
      `select calls::integer, round(mean_plan_time::numeric, 2)::float8 as plan_ms, round(mean_exec_time::numeric, 2)::float8 as exec_ms, left(regexp_replace(query, '\\s+', ' ', 'g'), 120) as query
       from   pg_stat_statements
       where  toplevel
       and    query not like '%pg_stat_statements%'
       order  by calls desc
       limit  $1`,
      [limit],
    );
    return rows;
  }
}
