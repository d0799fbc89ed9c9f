import pg from 'pg';

/**
 * A connection whose errors are heard by somebody. Between its way out of a pool and the listener of whoever took it there is a
 * moment in which a server that goes away would end the process. Whoever waits for an answer is told by that.
 */
export class GuardedClient extends pg.Client {
  constructor(config?: string | pg.ClientConfig) {
    super(config);
    this.on('error', () => {});
  }
}
