import type { EventEmitter } from 'node:events';
import type pg from 'pg';
import { breakConnection } from './break-connection.js';
import { GuardedClient } from './guarded-client.js';

type Query = (...args: unknown[]) => unknown;

/**
 * A kind of connection that is given up when an answer takes longer than so many milliseconds. pg itself only stops
 * waiting: the connection goes back to its pool, and the next statement waits behind the one that never ends. A database
 * that is cut off without a word (a dead host, a dropped route) would so silence every loop for as long as TCP is patient.
 * @param open where each is noted as long as it is open, also while it still connects
 * @param lost told of each that did not end as its pool had asked it to
 */
export function clientWithPatience(patienceMs: number, open = new Set<pg.Client>(), lost: () => void = () => {}): typeof pg.Client {
  return class extends GuardedClient {
    constructor(config: pg.ClientConfig) {
      // The pool hides the password from what copies its options.
      super({ ...config, password: config.password, query_timeout: patienceMs });
      // pg reports a failed login (no password given, for one) and leaves its socket open, which keeps the process.
      const { connection } = this as unknown as { connection: EventEmitter };
      connection.on('error', () => breakConnection(this));
      open.add(this);
      this.once('end', () => open.delete(this));
      this.once('error', lost);
      const query = this.query.bind(this) as Query;
      // pg has a dozen ways to call it; what matters is the promise that the pool's users wait for.
      this.query = ((...args: unknown[]) => {
        const result = query(...args);
        if (result instanceof Promise) result.catch((error: unknown) => giveUp(this, error));
        return result;
      }) as typeof this.query;
    }
  };
}

function giveUp(client: pg.Client, error: unknown): void {
  if (error instanceof Error && error.message === 'Query read timeout') breakConnection(client, error);
}
