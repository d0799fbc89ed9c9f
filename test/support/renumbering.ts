import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

/** A way to the database that gives clients a number of its own for their connection, as every pooler does. */
export class Renumbering {
  private readonly sockets = new Set<Socket>();

  private constructor(
    private readonly listener: Server,
    private readonly target: URL,
  ) {
    listener.on('connection', (client) => this.join(client));
  }

  static async to(url: string): Promise<Renumbering> {
    const listener = createServer().listen(0, '127.0.0.1');
    await once(listener, 'listening');
    return new Renumbering(listener, new URL(url));
  }

  get url(): string {
    const url = new URL(this.target);
    url.hostname = '127.0.0.1';
    url.port = String((this.listener.address() as AddressInfo).port);
    return url.href;
  }

  end(): void {
    for (const socket of this.sockets) socket.destroy();
    this.listener.close();
  }

  private join(client: Socket): void {
    const server = connect(Number(this.target.port), this.target.hostname);
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => (this.sockets.delete(socket), other.destroy()));
    }
    client.pipe(server);
    let rest = Buffer.alloc(0);
    let numbered = false;
    server.on('data', (bytes: Buffer) => {
      if (numbered) return void client.write(bytes);
      rest = Buffer.concat([rest, bytes]);
      // Message by message: its type, its length, and what it says.
      for (let end = endOf(rest); end !== null && !numbered; end = endOf(rest)) {
        numbered = rest[0] === BACKEND_KEY_DATA;
        if (numbered) rest.writeInt32BE(rest.readInt32BE(5) + 1_000_000, 5);
        client.write(rest.subarray(0, end));
        rest = rest.subarray(end);
      }
      if (numbered) client.write(rest);
    });
  }
}

const BACKEND_KEY_DATA = 'K'.charCodeAt(0);

function endOf(bytes: Buffer): number | null {
  const end = bytes.length < 5 ? Infinity : 1 + bytes.readInt32BE(1);
  return end <= bytes.length ? end : null;
}
