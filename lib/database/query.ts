import pg from 'pg';
import type { PostgresConnection } from '../options/scheduler-options.js';
import { type DataSource, type EntityManager, type QueryRunner, QueryRunnerAlreadyReleasedError } from 'typeorm';

/** Options of pg's `Client`. Its types are not everybody's dependency, so they are not named here. */
export type ClientOptions = Record<string, unknown>;

/** A connection's settings as plain values that can cross to a thread. The password may be made anew by a function. */
export interface ConnectionSettings {
  readonly config: ClientOptions;
  /** Set when the application gives the password by a function. */
  readonly password: (() => string | Promise<string>) | null;
  /** The options that are left out because they are functions, which can't cross: `ssl.checkServerIdentity`. */
  readonly functions: readonly string[];
}

/** For how long a connection is waited for, in milliseconds, unless the application says so. */
export const CONNECT_TIMEOUT_MS = 10_000;

/**
 * The kernel asks after so long without a word whether the other side is there, and again each second, as Node.js sets
 * it. What is connected for long is idle for minutes, and by the kernel’s own default it would be hours until one was
 * missed that a firewall has dropped.
 */
export const KEEP_ALIVE = { keepAlive: true, keepAliveInitialDelayMillis: 10_000 };

/** What TypeORM would connect with, for a connection outside its pools. */
export function connectionSettings(connection: PostgresConnection, applicationName: string): ConnectionSettings {
  const main = connection.replication?.master ?? connection;
  const { password } = main;
  const functions: string[] = [];
  const config = {
    connectionString: main.url,
    host: main.host,
    port: main.port,
    user: main.username,
    password: typeof password === 'function' ? undefined : password,
    database: main.database,
    ssl: plain(main.ssl, 'ssl', functions),
    connectionTimeoutMillis: connection.connectTimeoutMS ?? CONNECT_TIMEOUT_MS,
    ...KEEP_ALIVE,
    // As in TypeORM, these come last.
    ...(plain(connection.extra, 'extra', functions) as object | undefined),
    application_name: applicationName,
  };
  return {
    config: plain(config, '', []) as ClientOptions,
    password: typeof password === 'function' ? password : null,
    functions,
  };
}

/** Without what is undefined (pg would take it over the url's) and without functions, whose names are noted. */
function plain(value: unknown, path: string, functions: string[]): unknown {
  if (value instanceof Uint8Array) return new Uint8Array(value);
  if (Array.isArray(value)) return value.map((entry, index) => plain(entry, `${path}[${index}]`, functions));
  if (typeof value !== 'object' || value === null) return value;
  // Not Object.entries: pg's pool hides `ssl.key` from what lists an object.
  return Object.fromEntries(
    Object.getOwnPropertyNames(value).flatMap((name) => {
      const entry = (value as Record<string, unknown>)[name];
      if (typeof entry === 'function') functions.push(`${path}.${name}`);
      return entry === undefined || typeof entry === 'function'
        ? []
        : [[name, plain(entry, `${path}.${name}`, functions)]];
    }),
  );
}

type TypeParser = (text: string) => unknown;

const json: TypeParser = (text) => JSON.parse(text) as unknown;

/** By the type's number in PostgreSQL, and that of arrays of it: what this library reads. */
const READ: readonly (readonly [type: number, array: number, parser: TypeParser])[] = [
  [16, 1000, (text) => text === 't'],
  [19, 1003, String],
  [20, 1016, String],
  [21, 1005, Number],
  [23, 1007, Number],
  [25, 1009, String],
  [26, 1028, Number],
  [114, 199, json],
  [700, 1021, Number],
  [701, 1022, Number],
  [1043, 1015, String],
  [1184, 1185, instant],
  [1700, 1231, String],
  [2950, 2951, String],
  [3802, 3807, json],
];

const PARSERS = new Map<number, TypeParser>(
  READ.flatMap(([type, array, parser]) => [
    [type, parser],
    [array, arrayOf(parser)],
  ]),
);

/**
 * How answers to this library's statements are read, over whatever connection they come: as pg does by itself. Many
 * applications change that for their whole process (`pg.types.setTypeParser`) or for a pool of theirs, and where
 * `false` comes as the text `f`, each receipt would be written twice. What is not listed is read as text.
 */
export const OWN_TYPES = {
  getTypeParser: (oid: number, format?: 'text' | 'binary'): TypeParser => {
    const parser = PARSERS.get(oid) ?? String;
    return format === 'binary' ? (pg.types.getTypeParser(oid, format) as TypeParser) : parser;
  },
};

/** pg's own, which @types/pg does not declare. */
function arrayOf(parser: TypeParser): TypeParser {
  const { arrayParser } = pg.types as unknown as {
    arrayParser: { create(text: string, parser: TypeParser): { parse(): unknown } };
  };
  return (text) => arrayParser.create(text, parser).parse();
}

/** `2026-01-31 09:00:00.123456+05:30`; the offset's minutes are left out when they are zero. */
function instant(text: string): Date {
  return new Date(text.replace(' ', 'T').replace(/([+-]\d\d)$/, '$1:00'));
}

/** What the server answered to one statement. */
export interface Answer {
  readonly rows: unknown[];
}

/** A connection of pg, whoever has made it. */
interface AnyClient {
  /** Asks for answers in their binary form. */
  binary?: boolean;
  query(query: {
    readonly text: string;
    readonly values?: readonly unknown[] | undefined;
    readonly types: typeof OWN_TYPES;
    readonly query_timeout?: number;
  }): Promise<Answer | Answer[]>;
}

/**
 * The one way in which a statement of this library reaches a connection: the answer is read by this library's rules,
 * whatever the application has set for its process or for the pool that the connection is of.
 * @param client pg's, as TypeORM or a pool gives it
 * @param patienceMs how long the answer is waited for; as long as the client does, if it is left out
 * @returns an answer for each statement, where there are several
 */
export function ask(
  client: unknown,
  text: string,
  values?: readonly unknown[],
  patienceMs?: number,
): Promise<Answer | Answer[]> {
  const asked = client as AnyClient;
  const { binary } = asked;
  try {
    if (binary) asked.binary = false;
    return asked.query({
      text,
      ...(values && { values }),
      types: OWN_TYPES,
      ...(patienceMs !== undefined && { query_timeout: patienceMs }),
    });
  } finally {
    // It is read when the statement is handed over.
    if (binary) asked.binary = binary;
  }
}

/** Runs one statement and returns its rows. */
export type Query = <Row = Record<string, unknown>>(sql: string, parameters?: readonly unknown[]) => Promise<Row[]>;

/** Whose connection a statement goes over; a data source gives one for it. */
export type Queryable = DataSource | EntityManager | QueryRunner;

/**
 * Statements of this library over TypeORM's connections, the application's too: past TypeORM's own `query`, which reads
 * answers as the application has its pool read them.
 */
export function queryOn(target: Queryable): Query {
  return async <Row>(sql: string, parameters?: readonly unknown[]) => {
    const given = runnerOf(target);
    const queryRunner = given ?? dataSourceOf(target).createQueryRunner();
    // TypeORM would go on with a connection that is somebody else's by now.
    if (queryRunner.isReleased) throw new QueryRunnerAlreadyReleasedError();
    try {
      const { rows } = [await ask(await queryRunner.connect(), sql, parameters)].flat()[0]!;
      return rows as Row[];
    } finally {
      if (!given) await queryRunner.release();
    }
  };
}

/** Null: there is none yet. */
function runnerOf(target: Queryable): QueryRunner | null {
  if ('connect' in target && 'isReleased' in target) return target;
  return ('queryRunner' in target && target.queryRunner) || null;
}

/** TypeORM 1 named anew what 0.3 calls `connection`. */
function dataSourceOf(target: Queryable): DataSource {
  if ('createQueryRunner' in target) return target;
  return target.dataSource ?? (target as unknown as { connection: DataSource }).connection;
}
