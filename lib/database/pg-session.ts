import { ask } from './query.js';

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
export interface SessionFacts {
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
