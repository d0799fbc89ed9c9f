import pg from 'pg';

/**
 * A connection whose errors are heard by somebody. BullMQ has one to itself while it looks at its tables: a server that goes away
 * meanwhile would end the process. Whoever waits for an answer is told by that.
 */
export class GuardedClient extends pg.Client {
  constructor(config?: string | pg.ClientConfig) {
    super(config);
    this.on('error', () => {});
  }
}
