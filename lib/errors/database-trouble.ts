import { SetupError } from './errors.js';

/** What stands between this process and its database. */
export type DatabaseTroubleKind =
  | 'unreachable'
  | 'restarting'
  | 'too many connections'
  | 'read-only'
  | 'too slow'
  | 'full'
  | 'password'
  | 'not let in'
  | 'encryption'
  | 'missing database'
  | 'missing table'
  | 'other tables'
  | 'permission';

/** A failure that the database, or the way to it, is the cause of; in words. */
export interface DatabaseTrouble {
  readonly kind: DatabaseTroubleKind;
  /** True: it may pass by itself, as a restart or a failover does. False: somebody has to do something. */
  readonly passing: boolean;
  /** PostgreSQL's SQLSTATE or the system's error code; null where there was none. */
  readonly code: string | null;
  /** One sentence: what it is, and what to do. */
  readonly advice: string;
}

type Rule = readonly [
  DatabaseTroubleKind,
  passing: boolean,
  codes: readonly string[],
  said: RegExp | null,
  advice: string,
];

/**
 * The first that fits holds. A code is a whole SQLSTATE, its class of two characters, or the system's name of an error.
 */
export const TROUBLES: readonly Rule[] = [
  [
    'unreachable',
    true,
    ['ECONNREFUSED', 'ECONNRESET', 'ENOTFOUND', 'EAI_AGAIN', 'ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH', 'EPIPE', '08'],
    /^(Connection terminated|timeout expired|timeout exceeded when trying to connect|Query read timeout|Client (was closed|has encountered a connection error) and is not queryable|Connection ended unexpectedly)/,
    'The database cannot be reached: see that its server runs and that host and port are right; the scheduler tries again by itself.',
  ],
  [
    'restarting',
    true,
    ['57P01', '57P02', '57P03'],
    null,
    'The database is starting or stopping: the scheduler tries again by itself.',
  ],
  [
    'too many connections',
    true,
    ['53300'],
    null,
    'The server has no connection left: raise max_connections, lower the pools (poolSize, receiptPoolSize and the application’s own) or put a pooler before it.',
  ],
  [
    'read-only',
    true,
    ['25006'],
    null,
    'This server takes no writes: it is a standby, or default_transaction_read_only is on. Let the address be one name that leads to the primary: the scheduler tries again by itself.',
  ],
  [
    'too slow',
    true,
    ['57014', '55P03'],
    null,
    'The database ended a statement that took too long: look for locks and load, and at statement_timeout and lock_timeout of the role.',
  ],
  [
    'full',
    false,
    ['53100', '53200'],
    null,
    'The database’s machine has no room left, on disk or in memory: make some.',
  ],
  [
    'password',
    false,
    ['28P01'],
    /client password must be a string/,
    'The server refused user and password: set those that it knows.',
  ],
  [
    'not let in',
    false,
    ['28000'],
    null,
    'The server lets this user not in from here: see its pg_hba.conf, and whether it wants an encrypted connection (ssl).',
  ],
  [
    'encryption',
    false,
    [
      'SELF_SIGNED_CERT_IN_CHAIN',
      'DEPTH_ZERO_SELF_SIGNED_CERT',
      'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
      'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
      'CERT_HAS_EXPIRED',
      'ERR_TLS_CERT_ALTNAME_INVALID',
    ],
    /does not support SSL/,
    'Server and scheduler do not agree on encryption: see the ssl option of the connection and the server’s certificate.',
  ],
  [
    'missing database',
    false,
    ['3D000'],
    null,
    'There is no database of that name on the server: create it, or set the right name.',
  ],
  [
    'missing table',
    false,
    ['42P01', '3F000'],
    null,
    'A table is missing: run the migrations, with migrate: true in forRoot() or as schedulerMigrations in your data source; once it is there the scheduler goes on by itself.',
  ],
  [
    'other tables',
    false,
    ['42703', '42883', '42804'],
    null,
    'The tables are those of another version of this library: run its migrations, or update the library where a newer release has migrated.',
  ],
  [
    'permission',
    false,
    ['42501'],
    null,
    'The role may not do that: grant it what npx nestjs-distributed-cron sql roles prints; see docs/permissions.md.',
  ],
];

/** @returns null for what has nothing to do with the database; never throws */
export function databaseTrouble(error: unknown): DatabaseTrouble | null {
  for (const { code, message } of layersOf(error)) {
    const rule = TROUBLES.find(
      ([, , codes, said]) => (code !== null && codes.some((known) => fits(known, code))) || said?.test(message),
    );
    if (rule) return { kind: rule[0], passing: rule[1], code, advice: rule[4] };
  }
  return null;
}

/** True when the database does not answer at all, whoever asks. */
export function isOutOfReach({ kind }: DatabaseTrouble): boolean {
  return kind === 'unreachable' || kind === 'restarting' || kind === 'too many connections';
}

/** What loops do about a trouble, in its advice. */
const BY_ITSELF = /[;:] (once it is there )?the scheduler (tries again|goes on) by itself/;

/**
 * Its advice where the process ends with it: what a running scheduler does by itself, one that could not start does
 * not.
 */
export function adviceAtStart({ advice, passing }: DatabaseTrouble): string {
  const toDo = advice.replace(BY_ITSELF, '');
  return passing ? `${toDo} waitForDatabase says how long a start waits for that (by default not at all).` : toDo;
}

/** @param from where the address came from; the message never has a password */
export function unreachable(from: string, cause: unknown): SetupError {
  const trouble = databaseTrouble(cause);
  const advice = trouble
    ? adviceAtStart(trouble)
    : 'Check that the server runs and that the address, user and password are right.';
  return new SetupError(
    'database-unreachable',
    `Cannot connect to PostgreSQL (address from ${from}): ${messageOf(cause)}. ${advice}`,
    { cause },
  );
}

/** Node reports several refused addresses as one error without a message of its own. */
function messageOf(cause: unknown): string {
  if (cause instanceof AggregateError && cause.errors.length > 0) return messageOf(cause.errors[0]);
  return cause instanceof Error ? cause.message : String(cause);
}

function fits(known: string, code: string): boolean {
  return known.length === 2 ? code.length === 5 && code.startsWith(known) : code === known;
}

interface Layer {
  readonly code: string | null;
  readonly message: string;
}

const DEEPEST = 5;

/** The error and what it wraps: TypeORM keeps PostgreSQL's, Node.js several addresses' in one. */
function layersOf(error: unknown, depth = 0): Layer[] {
  if (typeof error !== 'object' || error === null || depth > DEEPEST) return [];
  try {
    const { code, message, driverError, cause, errors } = error as Record<string, unknown>;
    const own = { code: typeof code === 'string' ? code : null, message: typeof message === 'string' ? message : '' };
    const wrapped = [driverError, cause, Array.isArray(errors) ? errors[0] : null];
    return [own, ...wrapped.flatMap((inner) => layersOf(inner, depth + 1))];
  } catch {
    return [];
  }
}
