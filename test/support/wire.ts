import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

interface Line {
  readonly client: Socket;
  readonly server: Socket;
  /** The first packet: it names user, database and application. */
  greeting: string;
}

/** A client's way to the database, to be cut or to go silent for it alone. */
export class Wire {
  private readonly lines = new Set<Line>();
  private readonly abandoned = new Set<Line>();
  private state: 'whole' | 'cut' | 'silent' = 'whole';

  private constructor(
    private readonly listener: Server,
    private readonly target: URL,
  ) {
    listener.on('connection', (client) => this.join(client));
  }

  static async to(url: string): Promise<Wire> {
    const listener = createServer().listen(0, '127.0.0.1');
    await once(listener, 'listening');
    return new Wire(listener, new URL(url));
  }

  /** The database's url, through this wire. */
  get url(): string {
    const url = new URL(this.target);
    url.hostname = '127.0.0.1';
    url.port = String((this.listener.address() as AddressInfo).port);
    return url.href;
  }

  /** Connections break, and new ones are refused: the server is down. */
  cut(): void {
    this.state = 'cut';
    this.drop();
  }

  /** Nothing arrives any more and nothing breaks: a network without an answer. */
  silence(): void {
    this.state = 'silent';
    for (const { client, server } of this.lines) {
      client.pause();
      server.pause();
    }
  }

  /**
   * The connections there are carry nothing more, for ever, and nobody is told; new ones work.
   * @param applicationName only those that said so at their start
   * @returns how many
   */
  silenceConnections(applicationName = ''): number {
    const silenced = [...this.lines].filter(({ greeting }) => greeting.includes(applicationName));
    for (const line of silenced) this.abandon(line);
    return silenced.length;
  }

  /** The same for the connection that was made last. */
  silenceNewest(): void {
    this.abandon([...this.lines].at(-1)!);
  }

  /** What was held back arrives; new connections are served. */
  mend(): void {
    this.state = 'whole';
    for (const { client, server } of this.lines) {
      client.resume();
      server.resume();
    }
  }

  end(): void {
    this.cut();
    this.listener.close();
  }

  private join(client: Socket): void {
    client.on('error', () => undefined);
    if (this.state === 'cut') return void client.destroy();
    const server = connect(Number(this.target.port), this.target.hostname);
    const line: Line = { client, server, greeting: '' };
    client.once('data', (bytes: Buffer) => (line.greeting = bytes.toString('latin1')));
    this.lines.add(line);
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      from.on('data', (bytes) => to.write(bytes));
      from.on('error', () => undefined);
      from.on('close', () => {
        to.destroy();
        this.lines.delete(line);
      });
    }
    if (this.state === 'silent') client.pause();
  }

  private abandon(line: Line): void {
    line.client.pause();
    line.server.pause();
    this.lines.delete(line);
    this.abandoned.add(line);
  }

  private drop(): void {
    for (const { client, server } of [...this.lines, ...this.abandoned]) {
      client.destroy();
      server.destroy();
    }
    this.lines.clear();
    this.abandoned.clear();
  }
}
