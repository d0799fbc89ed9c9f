import type { EventEmitter } from 'node:events';
import pg from 'pg';
import { OWN_TYPES } from './client-config.js';
import { breakConnection, Connections, discardConnection, GuardedClient } from './clients.js';
import { sessionOf } from './pg-session.js';

type Done = (error: Error | null) => void;

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
