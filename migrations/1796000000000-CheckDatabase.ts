import type { MigrationInterface, QueryRunner } from 'typeorm';

/** The library's tables: `p` is partitioned. No table of another library has all of these columns. */
const TABLES = [
  {
    name: 'job_schedule',
    kind: 'r',
    columns: ['name', 'cron', 'time_zone', 'policies', 'effective_from', 'decided_until', 'revision'],
  },
  {
    name: 'job_runs',
    kind: 'p',
    columns: ['job_name', 'fire_time', 'status', 'claimed_by', 'lease_until', 'attempt', 'next_attempt_at'],
  },
  {
    name: 'receipts',
    kind: 'p',
    columns: ['job_name', 'fire_time', 'entity', 'effect', 'attempt', 'claimed_by', 'idempotency_key'],
  },
  { name: 'receipt_secret', kind: 'r', columns: ['is_one', 'secret'] },
  {
    name: 'job_backfills',
    kind: 'r',
    columns: ['id', 'job_name', 'range_from', 'range_to', 'fed_until', 'left_alone'],
  },
  { name: 'job_instances', kind: 'r', columns: ['id', 'jobs', 'handlers', 'started_at', 'alive_until', 'declares'] },
  { name: 'job_actions', kind: 'r', columns: ['id', 'at', 'action', 'job_name', 'fire_time', 'actor', 'details'] },
  { name: 'job_flags', kind: 'r', columns: ['name', 'is_on', 'changed_by', 'reason', 'changed_at'] },
  { name: 'job_alerts', kind: 'r', columns: ['key', 'told_at'] },
  {
    name: 'job_pages',
    kind: 'p',
    columns: ['job_name', 'fire_time', 'page', 'status', 'attempt', 'ticket', 'enqueued_at'],
  },
];

/** What PostgreSQL keeps under a name, by `pg_class.relkind`. */
const KINDS: Readonly<Record<string, string>> = {
  r: 'a table',
  p: 'a table',
  f: 'a foreign table',
  v: 'a view',
  m: 'a materialized view',
  S: 'a sequence',
  c: 'a type',
};

const OLDEST_VERSION = 140_000;

type Query = (sql: string, parameters?: unknown[]) => Promise<unknown>;

interface Foreign {
  name: string;
  kind: string;
  lacking: string[] | null;
}

/**
 * What keeps the library's tables from being in this database and schema: a server that is too old, or tables of
 * somebody else that have their names. Null where nothing does.
 */
export async function problemWithDatabase(query: Query, schema: string): Promise<string | null> {
  const [server] = (await query(
    `select current_setting('server_version') as version, current_setting('server_version_num')::integer as number`,
  )) as [{ version: string; number: number }];
  if (server.number < OLDEST_VERSION) {
    return `The server is PostgreSQL ${server.version}; the scheduler needs PostgreSQL 14 or later (14 to 18 are tested). Nothing was changed: upgrade the server, or name another one.`;
  }
  const foreign = (await query(
    `select found.relname::text as name,
            found.relkind::text as kind,
            lacking.columns as lacking
     from   jsonb_to_recordset($2::jsonb) as own (name text, kind text, columns jsonb)
     join   pg_namespace place on place.nspname = $1
     join   pg_class found on found.relnamespace = place.oid and found.relname = own.name
     cross  join lateral (
              select array_agg(column_name order by position) as columns
              from   jsonb_array_elements_text(own.columns) with ordinality as wanted (column_name, position)
              where  not exists (
                       select from pg_attribute
                       where  attrelid = found.oid
                       and    attname = column_name
                       and    attnum > 0
                       and    not attisdropped)) lacking
     where  lacking.columns is not null
     or     found.relkind::text <> own.kind
     order  by name`,
    [schema, JSON.stringify(TABLES)],
  )) as Foreign[];
  if (foreign.length === 0) return null;
  const whose = foreign.map(({ name, kind, lacking }) => {
    const why = lacking
      ? `it lacks ${lacking.join(', ')}`
      : 'the library’s own is a table, with partitions where it keeps runs, receipts and pages';
    return `"${schema}"."${name}" is ${KINDS[kind] ?? 'something'} that is not this library's (${why})`;
  });
  return (
    `The scheduler's tables cannot be in schema "${schema}": ${whose.join('; ')}. Nothing was changed. ` +
    `Give the library a schema of its own: forRoot({ schema: 'scheduler' }), and schedulerMigrationsIn('scheduler') where your own data source runs its migrations.`
  );
}

/**
 * Refuses a database that the library cannot use, before the migrations after it change anything. It creates nothing.
 */
export const checkDatabase = (schema?: string) =>
  class CheckDatabase1796000000000 implements MigrationInterface {
    readonly name = 'CheckDatabase1796000000000';

    async up(queryRunner: QueryRunner): Promise<void> {
      const options = queryRunner.connection.options as { schema?: string };
      const problem = await problemWithDatabase(
        (sql, parameters) => queryRunner.query(sql, parameters),
        schema ?? options.schema ?? 'public',
      );
      if (problem !== null) throw new Error(problem);
    }

    async down(): Promise<void> {}
  };
