import type { EventEmitter } from 'node:events';
import type pg from 'pg';
import { breakConnection } from './break-connection.js';
import { Connections } from './guarded-client.js';
import { OwnClient } from './own-client.js';

/**
 * A kind of connection that is given up when an answer takes longer than so many milliseconds. pg itself only stops
 * waiting: the connection goes back to its pool, and the next statement waits behind the one that never ends. A database
 * that is cut off without a word (a dead host, a dropped route) would so silence every loop for as long as TCP is patient.
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
