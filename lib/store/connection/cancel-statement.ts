import type { Query } from './query.js';

/** How much of a statement the server shows at least. */
const SHOWN = 1_000;

/**
 * Cancels a statement of this role that is under way on another connection. By its text: behind a pooler a connection's number
 * is not that of the session which works for it.
 */
export async function cancelStatement(query: Query, text: string): Promise<void> {
  await query(
    `select pg_cancel_backend(pid)
     from   pg_stat_activity
     where  datname = current_database()
     and    usename = current_user
     and    state = 'active'
     and    left(query, ${SHOWN}) = $1`,
    [text.slice(0, SHOWN)],
  );
}
