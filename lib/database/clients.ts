import type { EventEmitter } from 'node:events';
import pg from 'pg';
import { inCleanContext } from './clean-context.js';
import { isLastWord, isReadOnly } from './sql-state.js';

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
