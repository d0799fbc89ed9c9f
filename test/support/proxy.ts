import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

interface Pair {
  readonly client: Socket;
  readonly database: Socket;
  /** The first packet: it names user, database and application. */
  greeting: string;
}

/** Stands between a client and its database, and can cut the line in the ways networks do. */
export class Proxy {
  private readonly pairs = new Set<Pair>();
  private silent = false;

  private constructor(
    private readonly server: Server,
    readonly url: string,
  ) {}

  static async start(databaseUrl: string): Promise<Proxy> {
    const target = new URL(databaseUrl);
    let proxy!: Proxy;
    const server = createServer((client) => proxy.join(client, connect(Number(target.port), target.hostname)));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const url = new URL(databaseUrl);
    url.hostname = '127.0.0.1';
    url.port = String((server.address() as AddressInfo).port);
    proxy = new Proxy(server, url.href);
    return proxy;
  }

  /**
   * From now on the connections there are carry nothing more, and nobody is told. New ones work.
   * @param applicationName only those that said so at their start
   */
  freezeConnections(applicationName = ''): number {
    const frozen = [...this.pairs].filter((pair) => pair.greeting.includes(applicationName));
    for (const { client, database } of frozen) {
      client.unpipe(database);
      database.unpipe(client);
    }
    return frozen.length;
  }

  /** Every connection is reset, and new ones are refused, until `mend()`. */
  cut(): void {
    this.silent = true;
    for (const { client, database } of this.pairs) {
      client.destroy();
      database.destroy();
    }
  }

  mend(): void {
    this.silent = false;
  }

  async close(): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private join(client: Socket, database: Socket): void {
    if (this.silent) {
      client.destroy();
      database.destroy();
      return;
    }
    const pair: Pair = { client, database, greeting: '' };
    this.pairs.add(pair);
    client.once('data', (data: Buffer) => (pair.greeting = data.toString('latin1')));
    for (const [one, other] of [[client, database], [database, client]] as const) {
      one.pipe(other);
      one.on('error', () => other.destroy());
      one.on('close', () => {
        other.destroy();
        this.pairs.delete(pair);
      });
    }
  }
}
