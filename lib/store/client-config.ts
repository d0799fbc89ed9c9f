import type { PostgresConnection } from '../options/scheduler-options.js';

/** Options of pg's `Client`. Its types are not everybody's dependency, so they are not named here. */
export type ClientOptions = Record<string, unknown>;

/** A connection's settings as plain values that can cross to a thread. The password may be made anew by a function. */
export interface ConnectionSettings {
  readonly config: ClientOptions;
  /** Set when the application gives the password by a function. */
  readonly password: (() => string | Promise<string>) | null;
}

/** What TypeORM would connect with, for a connection outside its pools. */
export function connectionSettings(connection: PostgresConnection, applicationName: string): ConnectionSettings {
  const { password } = connection;
  const main = connection.replication?.master ?? connection;
  const config = {
    ...(connection.extra as object | undefined),
    connectionString: main.url,
    host: main.host,
    port: main.port,
    user: main.username,
    password: typeof password === 'function' ? undefined : (main.password as string | undefined),
    database: main.database,
    ssl: main.ssl ?? connection.ssl,
    application_name: applicationName,
    keepAlive: true,
  };
  return { config: plain(config) as ClientOptions, password: typeof password === 'function' ? password : null };
}

/** Without what is undefined (pg would take it over the url's) and without functions, which can't cross. */
function plain(value: unknown): unknown {
  if (Buffer.isBuffer(value)) return value.toString();
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, entry]) => entry !== undefined && typeof entry !== 'function')
      .map(([name, entry]) => [name, plain(entry)]),
  );
}
