import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { SMTPServer } from 'smtp-server';

/** A mail as it came over the wire. */
export interface Mail {
  readonly messageId: string;
  readonly jobName: string;
  /** ISO 8601. */
  readonly fireTime: string;
  readonly entity: string;
  readonly replica: string;
}

/** A real SMTP server on loopback that keeps every mail it takes, repeated ones as well. */
export class MailSink {
  readonly mails: Mail[] = [];
  private readonly server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['AUTH', 'STARTTLS'],
    disableReverseLookup: true,
    logger: false,
    onData: (stream, _session, taken) => {
      text(stream).then((message) => {
        this.mails.push(readMail(message));
        taken(null);
      }, taken);
    },
  });

  static async listen(): Promise<MailSink> {
    const sink = new MailSink();
    // A replica that is killed resets its connections.
    sink.server.on('error', () => undefined);
    await new Promise<void>((resolve) => void sink.server.listen(0, '127.0.0.1', resolve));
    return sink;
  }

  get port(): number {
    return (this.server.server.address() as AddressInfo).port;
  }

  close(): void {
    this.server.close(() => undefined);
  }
}

function readMail(message: string): Mail {
  const head = message.slice(0, message.indexOf('\r\n\r\n')).replaceAll(/\r\n[ \t]+/g, ' ');
  const header = (name: string) => new RegExp(`^${name}: *(.*)$`, 'im').exec(head)?.[1]?.trim() ?? '';
  return {
    messageId: header('Message-ID'),
    jobName: header('X-Job'),
    fireTime: header('X-Fire-Time'),
    entity: header('X-Entity'),
    replica: header('X-Replica'),
  };
}
