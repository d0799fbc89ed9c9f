import type { Query } from './query.js';
import type { Tables } from './tables.js';

/**
 * What another instance has made due, so that others need not wait for their next poll. `runs`: something waits that may
 * start now. `jobs`: a schedule or a flag has changed, or there is a backfill. `told`: a handler is to be told to stop.
 */
export type WakeUp = 'runs' | 'jobs' | 'told';

/**
 * SQL that has every instance look at once, when the transaction commits. A hint, that may be lost: they look at their
 * next poll in any case. For what somebody waits for; never where occurrences are claimed and ended, for commits that
 * notify wait for each other, all over the database server.
 */
export function wakingUp({ wakeUps }: Tables, what: 'runs' | 'jobs'): string {
  return `pg_notify('${wakeUps}', '${what}')`;
}

/** Has every instance look at once, when the transaction commits. */
export async function wakeUp(query: Query, tables: Tables, what: 'runs' | 'jobs'): Promise<void> {
  await query(`select ${wakingUp(tables, what)}`);
}
