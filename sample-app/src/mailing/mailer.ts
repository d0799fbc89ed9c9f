import { Inject, Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { createTransport } from 'nodemailer';
import { SETTINGS, type Settings } from '../settings.js';
import type { OutboxMail } from './outbox-mail.entity.js';

/** Real SMTP, one connection a replica. */
@Injectable()
export class Mailer implements OnApplicationShutdown {
  private readonly transport;

  constructor(@Inject(SETTINGS) private readonly settings: Settings) {
    this.transport = createTransport({ host: '127.0.0.1', port: settings.smtpPort, secure: false, ignoreTLS: true, pool: true, maxConnections: 1 });
  }

  /** Resolves when the mail server has taken the mail. */
  async send(mail: OutboxMail): Promise<void> {
    await this.transport.sendMail({
      from: 'billing@invoices.example',
      to: mail.recipient,
      subject: 'Your statement',
      messageId: `<${mail.messageId}@invoices.example>`,
      text: mail.body,
      headers: {
        'X-Customer': String(mail.customerId),
        'X-Fire-Time': mail.fireTime.toISOString(),
        'X-Replica': this.settings.replica,
      },
    });
  }

  onApplicationShutdown(): void {
    this.transport.close();
  }
}
