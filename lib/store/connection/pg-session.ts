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

/** A statement that a session keeps under a name. Its parameters are `jsonb`. */
export interface PreparableStatement {
  /** One name, one text: a data source serves one schema. */
  readonly name: string;
  /** @param parameters SQL for each of its values */
  readonly sql: (parameters: readonly string[]) => string;
  readonly values: readonly unknown[];
}

/** What is known of a connection's session. */
export interface SessionFacts {
  /**
   * The connection is the session: what is set or prepared on it stays on it. Behind a pooler it is not, which is seen from
   * the process id: a pooler makes up one of its own for its clients.
   */
  readonly isOwn: boolean;
  /** On a session of its own, transactions are read committed without being asked to. */
  readonly isReadCommitted: boolean;
}

/** The plan of a prepared statement is made for the tables as they are then, and made anew after so long, in milliseconds. */
const PLAN_FOR_MS = 600_000;

const sessions = new WeakMap<object, Promise<SessionFacts>>();

/** Until when each is good, by the monotonic clock. */
const prepared = new WeakMap<PgSession, Map<string, number>>();

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

/**
 * Prepares those statements that are not, or not any more.
 * @returns for each, SQL that calls it with SQL for its values
 */
export async function preparedOn(client: PgSession, statements: readonly PreparableStatement[]): Promise<((values: readonly string[]) => string)[]> {
  const known = prepared.get(client) ?? new Map<string, number>();
  prepared.set(client, known);
  const now = performance.now();
  for (const { name, sql, values } of statements) {
    const goodUntil = known.get(name);
    if (goodUntil !== undefined && goodUntil > now) continue;
    const text = sql(values.map((_, index) => `$${index + 1}`));
    const parts = [
      ...(goodUntil !== undefined ? [`deallocate ${nameOf(name)}`] : []),
      // Left to itself, the planner takes a general plan for dearer than it is, and plans each call. And of a month that has just
      // begun, or a table that was never counted, it would plan to read all: that is right for a moment, and wrong for long.
      'set plan_cache_mode = force_generic_plan',
      'set enable_seqscan = off',
      `prepare ${nameOf(name)}${inBrackets(values.map(() => 'jsonb'))} as ${text}`,
    ];
    known.delete(name);
    await client.query(parts.join(';\n'));
    known.set(name, now + PLAN_FOR_MS);
  }
  return statements.map(({ name }) => (values) => `execute ${nameOf(name)}${inBrackets(values)}`);
}

/** Whatever the session still knows of them: all are prepared anew. Nothing else is prepared on connections of this library. */
export async function forgetPrepared(client: PgSession): Promise<void> {
  prepared.delete(client);
  await client.query('deallocate all');
}

function nameOf(name: string): string {
  return `"nestjs-distributed-cron ${name}"`;
}

function inBrackets(list: readonly string[]): string {
  return list.length === 0 ? '' : ` (${list.join(', ')})`;
}
