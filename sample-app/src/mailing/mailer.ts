import { Inject, Injectable, type OnApplicationShutdown } from '@nestjs/common';
import type { CronRun } from 'nestjs-distributed-cron';
import { createTransport } from 'nodemailer';
import type { Customer } from '../customers/customer.entity.js';
import { SETTINGS, type Settings } from '../settings.js';

/** Real SMTP, one connection a replica. */
@Injectable()
export class Mailer implements OnApplicationShutdown {
  private readonly transport;

  constructor(@Inject(SETTINGS) private readonly settings: Settings) {
    this.transport = createTransport({
      host: '127.0.0.1',
      port: settings.smtpPort,
      secure: false,
      ignoreTLS: true,
      pool: true,
      maxConnections: 1,
    });
  }

  /**
   * Resolves when the mail server has taken the mail.
   * @param key becomes the Message-ID
   * @returns what the mail server said
   */
  async send(run: CronRun, customer: Customer, letter: string, key: string): Promise<string> {
    const { response } = await this.transport.sendMail({
      from: 'billing@invoices.example',
      to: customer.email,
      subject: 'Your statement',
      messageId: `<${key}@invoices.example>`,
      text: letter,
      headers: {
        'X-Customer': String(customer.id),
        'X-Fire-Time': run.fireTime.toISOString(),
        'X-Replica': this.settings.replica,
      },
    });
    return response;
  }

  /** The mail server has answered that it does not take the mail. */
  static isRefused(error: unknown): boolean {
    return Number((error as { responseCode?: unknown } | null)?.responseCode) >= 400;
  }

  onApplicationShutdown(): void {
    this.transport.close();
  }
}
