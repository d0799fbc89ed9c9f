import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A request that the receiver has got. */
export interface Taken {
  readonly key: string;
  readonly entity: string;
}

/** Somebody else's HTTP server, on loopback: it takes requests under idempotency keys, and acts once for each. */
export class Receiver {
  /** Everything that came, repetitions too. */
  readonly taken: Taken[] = [];
  /** What it acted on: the first under each key. */
  readonly acted = new Map<string, string>();
  private readonly waiting: (() => void)[] = [];
  private readonly server = createServer((request, response) => this.take(request, response));
  /** What is done once a request is in; by default it is answered. */
  answer: (response: ServerResponse, taken: Taken) => void = (response, { key }) =>
    response.end(JSON.stringify({ id: `ch_${key.slice(0, 8)}` }));

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  /** Resolves when so many requests are in. */
  async has(requests: number): Promise<void> {
    while (this.taken.length < requests) await new Promise<void>((resolve) => this.waiting.push(resolve));
  }

  countOf(entity: string): { taken: number; acted: number } {
    return {
      taken: this.taken.filter((one) => one.entity === entity).length,
      acted: [...this.acted.values()].filter((one) => one === entity).length,
    };
  }

  private take({ headers, url }: IncomingMessage, response: ServerResponse): void {
    const taken = { key: String(headers['idempotency-key']), entity: decodeURIComponent(url!.slice(1)) };
    this.taken.push(taken);
    if (!this.acted.has(taken.key)) this.acted.set(taken.key, taken.entity);
    for (const tell of this.waiting.splice(0)) tell();
    this.answer(response, taken);
  }
}
