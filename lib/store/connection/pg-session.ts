/** What pg offers on a connection for statements that carry their values in their text. */
export interface PgSession {
  query(text: string): Promise<PgResult | PgResult[]>;
  escapeLiteral(text: string): string;
}

/** Of the server process, as the connection was told when it began; pg does not declare it. */
interface NumberedClient {
  readonly processID: number | null;
  query(query: { text: string; query_timeout?: number }): Promise<PgResult | PgResult[]>;
}

interface PgResult {
  readonly rows: unknown[];
}

/** What is known of a connection's session. */
export interface SessionFacts {
  /**
   * The connection is the session: what is set on it stays on it. Behind a pooler it is not, which is seen from
   * the process id: a pooler makes up one of its own for its clients.
   */
  readonly isOwn: boolean;
  /** On a session of its own, transactions are read committed without being asked to. */
  readonly isReadCommitted: boolean;
}

const sessions = new WeakMap<object, Promise<SessionFacts>>();

/**
 * Asks once for each connection. A session of its own is made read committed, whatever the default of its role or database:
 * under a stricter level a renewal of leases fails when a run that it is about ends in that moment, and with it all others.
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
  const ask = async (text: string) => [await client.query({ text, ...(patienceMs !== undefined && { query_timeout: patienceMs }) })].flat()[0]!.rows;
  const [{ pid, isolation }] = (await ask(`select pg_backend_pid() as pid, current_setting('default_transaction_isolation') as isolation`)) as [{ pid: number; isolation: string }];
  const isOwn = pid === client.processID;
  if (isOwn && isolation !== 'read committed') await ask(`set default_transaction_isolation = 'read committed'`);
  // A claim depends on it, and goes on to ask for it itself: what was set may be reset.
  return { isOwn, isReadCommitted: isOwn && isolation === 'read committed' };
}
