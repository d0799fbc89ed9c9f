import pg from 'pg';
import { discardConnection } from './break-connection.js';
import { OWN_TYPES } from './client-config.js';
import { GuardedClient, type Connections } from './guarded-client.js';
import { sessionOf } from './pg-session.js';

type Done = (error: Error | null) => void;

/** A connection that this library alone uses: it is ready once its session is set up, and reads answers by this library's rules. */
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
