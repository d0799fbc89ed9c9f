import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { SMTPServer } from 'smtp-server';
import { Problem } from './problem.js';

/** A mail as it came over the wire. */
export interface Mail {
  readonly messageId: string;
  readonly customerId: number;
  /** ISO 8601. */
  readonly fireTime: string;
  readonly replica: string;
}

export type Arrival = Mail & { readonly repeated: boolean };

/**
 * A real SMTP server on loopback that keeps the first mail of each Message-ID and drops the others, as receiving mail
 * systems do. It looks at nothing else: two mails to one customer with different Message-IDs are both kept, and found.
 */
export class MailServer {
  readonly kept: Mail[] = [];
  readonly dropped: Mail[] = [];
  private readonly known = new Set<string>();
  private readonly server: SMTPServer;
  onMail: (arrival: Arrival) => void = () => {};
  /** Called when a mail is in, before the sender is told so. */
  onArrival: (arrival: Arrival) => void = () => {};
  /** Called when the sender has been told. */
  onAnswered: (arrival: Arrival) => void = () => {};

  constructor() {
    this.server = new SMTPServer({
      authOptional: true,
      disabledCommands: ['AUTH', 'STARTTLS'],
      disableReverseLookup: true,
      logger: false,
      onData: (stream, _session, callback) => {
        text(stream).then((message) => {
          const arrival = this.take(readMail(message));
          this.onMail(arrival);
          this.onArrival(arrival);
          callback(null);
          this.onAnswered(arrival);
        }, callback);
      },
    });
    // A killed replica resets its connection.
    this.server.on('error', () => {});
  }

  /** @returns the port */
  async listen(port: number): Promise<number> {
    await new Promise<void>((resolve, reject) => {
      this.server.server.once('error', reject);
      this.server.listen(port, '127.0.0.1', resolve);
    }).catch((error: NodeJS.ErrnoException) => {
      throw explainListening(error, port);
    });
    return (this.server.server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    await new Promise<void>((resolve) => this.server.close(resolve));
  }

  private take(mail: Mail): Arrival {
    const repeated = this.known.has(mail.messageId);
    this.known.add(mail.messageId);
    (repeated ? this.dropped : this.kept).push(mail);
    return { ...mail, repeated };
  }
}

function readMail(message: string): Mail {
  const head = message.slice(0, message.indexOf('\r\n\r\n')).replaceAll(/\r\n[ \t]+/g, ' ');
  const header = (name: string) => new RegExp(`^${name}: *(.*)$`, 'im').exec(head)?.[1]?.trim() ?? '';
  return {
    messageId: header('Message-ID'),
    customerId: Number(header('X-Customer')),
    fireTime: header('X-Fire-Time'),
    replica: header('X-Replica'),
  };
}

function explainListening(error: NodeJS.ErrnoException, port: number): Error {
  switch (error.code) {
    case 'EADDRINUSE':
      return new Problem(
        `Port ${port} on 127.0.0.1 is in use. Choose another with --smtp-port, or leave it out for any free one.`,
      );
    case 'EACCES':
      return new Problem(
        `This user may not listen on port ${port}. Choose one above 1023 with --smtp-port, or leave it out for any free one.`,
      );
    default:
      return new Problem(`The mail server could not listen on 127.0.0.1:${port}: ${error.message}.`);
  }
}
