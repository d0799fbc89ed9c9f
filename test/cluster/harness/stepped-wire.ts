import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

const PROTOCOL_3 = 3;
const [QUERY, PARSE, BIND, SYNC] = ['Q', 'P', 'B', 'S'].map((letter) => letter.charCodeAt(0));
const [READY, KEY_DATA] = ['Z', 'K'].map((letter) => letter.charCodeAt(0));
/** The server does not answer these by itself: flush, the parts of a copy, the end of the session. */
const PASSED_ON = [...'HdcfX'].map((letter) => letter.charCodeAt(0));

/** What a client sends before it waits for the server: one query message, or what ends with a sync. */
export interface Send {
  /** The process of the server that gets it. */
  readonly pid: number;
  /** Its statement, or the name of the prepared one; the beginning. */
  readonly text: string;
  /** Hands it to the server. Resolves when the answer has come to this side, or the connection has ended. */
  forward(): Promise<void>;
}

/** One message of the protocol. */
interface Message {
  readonly type: number;
  readonly bytes: Buffer;
}

/** Cuts a stream into typed messages. */
class Messages {
  private rest: Buffer = Buffer.alloc(0);

  *add(bytes: Buffer): Iterable<Message> {
    this.rest = Buffer.concat([this.rest, bytes]);
    while (this.rest.length >= 5 && this.rest.length >= 1 + this.rest.readInt32BE(1)) {
      const length = 1 + this.rest.readInt32BE(1);
      const message = this.rest.subarray(0, length);
      this.rest = this.rest.subarray(length);
      yield { type: message[0]!, bytes: message };
    }
  }
}

/** One connection of the client. */
class Line {
  pid = 0;
  private greeting: Buffer | null = Buffer.alloc(0);
  private isReady = false;
  private readonly sent = new Messages();
  private readonly answers = new Messages();
  private gathered: Message[] = [];
  private answered: (() => void) | null = null;

  constructor(
    readonly client: Socket,
    readonly server: Socket,
    private readonly arrive: (send: Send) => void,
  ) {
    client.on('data', (bytes: Buffer) => this.fromClient(bytes));
    server.on('data', (bytes: Buffer) => this.fromServer(bytes));
  }

  ended(): void {
    this.answered?.();
  }

  private fromClient(bytes: Buffer): void {
    if (this.greeting) {
      // The first message has no type. What is no start of a session (a cancel request) is all that its connection
      // carries.
      this.greeting = Buffer.concat([this.greeting, bytes]);
      if (this.greeting.length < 8 || this.greeting.length < this.greeting.readInt32BE(0)) return;
      if (this.greeting.readInt16BE(4) === PROTOCOL_3) this.greeting = null;
      this.server.write(bytes);
      return;
    }
    for (const message of this.sent.add(bytes)) this.gather(message);
  }

  private gather(message: Message): void {
    this.gathered.push(message);
    const isWhole = message.type === QUERY || message.type === SYNC;
    if (this.isReady && !isWhole && !PASSED_ON.includes(message.type)) return;
    const whole = Buffer.concat(this.gathered.map(({ bytes }) => bytes));
    const text = this.gathered.map(statementIn).find((found) => found !== '') ?? '';
    this.gathered = [];
    if (!this.isReady || !isWhole) return void this.server.write(whole);
    const forward = () =>
      new Promise<void>((resolve) => {
        if (this.server.destroyed) return resolve();
        this.answered = resolve;
        this.server.write(whole);
      });
    this.arrive({ pid: this.pid, text, forward });
  }

  private fromServer(bytes: Buffer): void {
    this.client.write(bytes);
    for (const { type, bytes: message } of this.answers.add(bytes)) {
      if (type === KEY_DATA) this.pid = message.readInt32BE(5);
      if (type !== READY) continue;
      this.isReady = true;
      this.answered?.();
      this.answered = null;
    }
  }
}

/** A client's way to the database, on which each of its messages can be met before the server gets it. */
export class SteppedWire {
  private readonly lines = new Set<Line>();
  private readonly waiting: Send[] = [];
  private meet: ((send: Send) => Promise<void>) | null = null;
  private isMeeting = false;

  private constructor(
    private readonly listener: Server,
    private readonly target: URL,
  ) {
    listener.on('connection', (client) => this.join(client));
  }

  static async to(url: string): Promise<SteppedWire> {
    const listener = createServer().listen(0, '127.0.0.1');
    await once(listener, 'listening');
    return new SteppedWire(listener, new URL(url));
  }

  /** The database's url, through this wire. */
  get url(): string {
    const url = new URL(this.target);
    url.hostname = '127.0.0.1';
    url.port = String((this.listener.address() as AddressInfo).port);
    return url.href;
  }

  /** The processes of the server that serve its connections. */
  get pids(): number[] {
    return [...this.lines].map(({ pid }) => pid).filter((pid) => pid !== 0);
  }

  /**
   * From now on each message is met, one after the other over all connections; null: they pass, also those that wait.
   */
  watch(meet: ((send: Send) => Promise<void>) | null): void {
    this.meet = meet;
  }

  end(): void {
    this.watch(null);
    for (const { client, server } of this.lines) {
      client.destroy();
      server.destroy();
    }
    this.listener.close();
  }

  private join(client: Socket): void {
    const server = connect(Number(this.target.port), this.target.hostname);
    const line = new Line(client, server, (send) => this.arrive(send));
    this.lines.add(line);
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      from.on('error', () => undefined);
      from.on('close', () => {
        to.destroy();
        this.lines.delete(line);
        line.ended();
      });
    }
  }

  private arrive(send: Send): void {
    if (!this.meet && !this.isMeeting) return void send.forward();
    this.waiting.push(send);
    if (!this.isMeeting) void this.meetAll();
  }

  private async meetAll(): Promise<void> {
    this.isMeeting = true;
    for (let send = this.waiting.shift(); send; send = this.waiting.shift()) {
      if (this.meet) await this.meet(send);
      else void send.forward();
    }
    this.isMeeting = false;
  }
}

function statementIn({ type, bytes }: Message): string {
  if (type === QUERY) return textAt(bytes, 5);
  if (type === PARSE) return textAt(bytes, bytes.indexOf(0, 5) + 1) || textAt(bytes, 5);
  return type === BIND ? textAt(bytes, bytes.indexOf(0, 5) + 1) : '';
}

function textAt(bytes: Buffer, start: number): string {
  return bytes.toString('utf8', start, bytes.indexOf(0, start)).replace(/\s+/g, ' ').trim().slice(0, 100);
}
