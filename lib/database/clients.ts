import type { EventEmitter } from 'node:events';
import pg from 'pg';
import { inCleanContext } from './loop.js';
import { isLastWord, isReadOnly } from './sql-state.js';
import { OWN_TYPES, ask } from './query.js';

/** A connection of pg, of which pg itself shows no socket. */
interface Connected {
  readonly connection?: { readonly stream?: { destroy(error?: Error): void } };
  end?(): Promise<void>;
}

/**
 * Breaks a connection of pg at once, without a word to a server that may not answer: what waits for it fails, and its
 * pool makes a new one.
 * @param client pg's `Client`, as TypeORM or a pool gives it
 */
export function breakConnection(client: unknown, why?: Error): void {
  (client as Connected).connection?.stream?.destroy(why);
}

/**
 * The same for a connection that somebody may give back to its pool in this very moment: a pool takes none back that is
 * ending, and hears of a broken one only later.
 */
export function discardConnection(client: unknown): void {
  (client as Connected).end?.().catch(() => {});
  breakConnection(client);
}

type Query = (...args: unknown[]) => unknown;
type Done = (error: Error | null, ...rest: unknown[]) => void;

/**
 * A connection whose errors are heard by somebody. Between its way out of a pool and the listener of whoever took it
 * there is a moment in which a server that goes away would end the process. Whoever waits for an answer is told by
 * that.
 *
 * One that takes no writes any more, or that the server has ended, is not used again: after a switchover a session may
 * stay on what was the primary, and its pool would give it out for ever.
 */
export class GuardedClient extends pg.Client {
  /** Nothing is asked on it, and no transaction is open. */
  private atRest = false;

  constructor(
    config?: string | pg.ClientConfig,
    private readonly pool: Connections | null = null,
  ) {
    super(config);
    pool?.add(this);
    this.on('error', () => {});
    const { connection } = this as unknown as { connection: EventEmitter };
    connection.on('readyForQuery', ({ status }: { status: string }) => (this.atRest = status === 'I'));
    const query = this.query.bind(this) as Query;
    // pg has a dozen ways to call it: with a promise that its users wait for, or a function at the end.
    this.query = ((...args: unknown[]) => {
      this.atRest = false;
      const done = args.at(-1);
      if (typeof done === 'function') args[args.length - 1] = this.heard(done as Done);
      const result = query(...args);
      if (result instanceof Promise) result.catch((error: unknown) => this.failed(error));
      return result;
    }) as typeof this.query;
  }

  /** It lasts longer than the request in which it is needed first. */
  override connect(done?: unknown): Promise<pg.Client> {
    const connect = super.connect.bind(this) as (done?: unknown) => Promise<pg.Client>;
    return inCleanContext(() => connect(done));
  }

  /** What was asked on it failed. */
  protected failed(error: unknown): void {
    if (!isReadOnly(error) && !isLastWord(error)) return;
    discardConnection(this);
    this.pool?.lose();
    if (isReadOnly(error)) this.pool?.distrust();
  }

  /** Lets go of it where nobody would notice. */
  leave(): void {
    if (this.atRest) breakConnection(this, new Error('Another connection of its pool takes no writes any more.'));
  }

  private heard(done: Done): Done {
    return (error, ...rest) => {
      if (error) this.failed(error);
      done(error, ...rest);
    };
  }
}

/** The connections of one pool, also those that still connect. */
export class Connections {
  private readonly open = new Set<GuardedClient>();
  /** How many did not end as their pool had asked them to. */
  lost = 0;

  /** @param whenReadOnly told when one of them was found to take no writes */
  constructor(private readonly whenReadOnly: () => void = () => {}) {}

  add(client: GuardedClient): void {
    this.open.add(client);
    client.once('end', () => this.open.delete(client));
    client.once('error', () => this.lose());
  }

  lose(): void {
    this.lost += 1;
  }

  /** One takes no writes any more: those at rest, which were made before, are not tried one after the other. */
  distrust(): void {
    this.leave();
    this.whenReadOnly();
  }

  leave(): void {
    for (const client of this.open) client.leave();
  }

  /** Nobody waits any longer for what is asked on them. */
  abandon(why: Error): void {
    for (const client of this.open) breakConnection(client, why);
  }
}

/** A kind of connection for one pool. */
export function clientOf(pool: Connections): typeof pg.Client {
  return class extends GuardedClient {
    constructor(config: pg.ClientConfig) {
      // The pool hides the password from what copies its options.
      super(config, pool);
    }
  };
}

/**
 * A connection that this library alone uses: it is ready once its session is set up, and reads answers by this
 * library's rules.
 */
export class OwnClient extends GuardedClient {
  private readonly patienceMs: number | undefined;

  constructor(config: pg.ClientConfig, pool: Connections | null = null) {
    // The pool hides the password from what copies its options. pg's types know only its own parsers.
    super({ ...config, password: config.password, types: OWN_TYPES as unknown as pg.CustomTypesConfig }, pool);
    (this as unknown as { binary: boolean }).binary = false;
    this.patienceMs = config.connectionTimeoutMillis || undefined;
  }

  override connect(done?: unknown): Promise<pg.Client> {
    const connecting = super.connect().then(() => this.begin());
    if (done) connecting.then(() => (done as Done)(null), done as Done);
    return connecting;
  }

  private async begin(): Promise<this> {
    try {
      await sessionOf(this, this.patienceMs);
      return this;
    } catch (error) {
      discardConnection(this);
      throw error;
    }
  }
}

/**
 * A kind of connection that is given up when an answer takes longer than so many milliseconds. pg itself only stops
 * waiting: the connection goes back to its pool, and the next statement waits behind the one that never ends. A
 * database that is cut off without a word (a dead host, a dropped route) would so silence every loop for as long as TCP
 * is patient.
 */
export function clientWithPatience(patienceMs: number, pool = new Connections()): typeof pg.Client {
  return class extends OwnClient {
    constructor(config: pg.ClientConfig) {
      super({ ...config, password: config.password, query_timeout: patienceMs }, pool);
      // pg reports a failed login (no password given, for one) and leaves its socket open, which keeps the process.
      const { connection } = this as unknown as { connection: EventEmitter };
      connection.on('error', () => breakConnection(this));
    }

    protected override failed(error: unknown): void {
      // pg's own words: they are in no other language.
      if (error instanceof Error && error.message === 'Query read timeout') breakConnection(this, error);
      else super.failed(error);
    }
  };
}

/** What pg offers on a connection for statements that carry their values in their text. */
export interface PgSession {
  query(text: string): Promise<PgResult | PgResult[]>;
  escapeLiteral(text: string): string;
}

interface NumberedClient {
  /** Of the server process, as the connection was told when it began; pg does not declare it. */
  readonly processID: number | null;
}

/**
 * What statements of this library depend on, whatever the role, the database, PGOPTIONS or the server’s file say:
 * limits that are for other people's statements, and how values are read and written. How long a statement may take its
 * client decides, and whether a session may write is never overruled.
 */
const SETTINGS: Record<string, string> = {
  default_transaction_isolation: 'read committed',
  default_transaction_deferrable: 'off',
  lock_timeout: '0',
  statement_timeout: '0',
  idle_session_timeout: '0',
  transaction_timeout: '0',
  // A process that is frozen in a transaction holds its locks no longer than that.
  idle_in_transaction_session_timeout: '5s',
  standard_conforming_strings: 'on',
  array_nulls: 'on',
  bytea_output: 'hex',
  client_encoding: 'UTF8',
  DateStyle: 'ISO, MDY',
  IntervalStyle: 'postgres',
  TimeZone: 'UTC',
  extra_float_digits: '1',
  // Where a planner switch makes a plan look dear, up to PostgreSQL 17 each of these small statements would be
  // compiled.
  jit: 'off',
};

interface PgResult {
  readonly rows: unknown[];
}

/** What is known of a connection's session. */
interface SessionFacts {
  /**
   * The connection is the session: what is set on it stays on it. Behind a pooler it is not, which is seen from the
   * process id: a pooler makes up one of its own for its clients.
   */
  readonly isOwn: boolean;
  /** On a session of its own, transactions are read committed without being asked to. */
  readonly isReadCommitted: boolean;
}

const sessions = new WeakMap<object, Promise<SessionFacts>>();

/**
 * Asks once for each connection, and gives a session of its own the settings that this library depends on. Under a
 * stricter isolation, for one, a renewal of leases fails when a run that it is about ends in that moment, and with it
 * all others. Behind a pooler nothing is set: the session is somebody else's a moment later.
 * @param client this library's own, of pg's kind
 * @param patienceMs how long to wait for the answer; as long as the client does, if it is left out
 */
export function sessionOf(client: object, patienceMs?: number): Promise<SessionFacts> {
  let facts = sessions.get(client);
  if (!facts) {
    facts = look(client as NumberedClient, patienceMs);
    facts.catch(() => sessions.delete(client));
    sessions.set(client, facts);
  }
  return facts;
}

async function look(client: NumberedClient, patienceMs?: number): Promise<SessionFacts> {
  // In one statement, so that it is one session that is asked and set. What does not exist in this version of the
  // server is left out.
  const text = `
    select pg_backend_pid() as pid,
           (select reset_val from pg_settings where name = 'default_transaction_isolation') as isolation,
           (select count(set_config(name, wanted.value, false))
            from   pg_settings
            join   unnest($2::text[], $3::text[]) as wanted (name, value) using (name)
            where  pg_backend_pid() = $1) as set`;
  const values = [client.processID, Object.keys(SETTINGS), Object.values(SETTINGS)];
  const { rows } = [await ask(client, text, values, patienceMs)].flat()[0]!;
  const [{ pid, isolation }] = rows as [{ pid: number; isolation: string }];
  const isOwn = pid === client.processID;
  // A claim depends on it, and goes on to ask for it itself: what was set may be reset.
  return { isOwn, isReadCommitted: isOwn && isolation === 'read committed' };
}
