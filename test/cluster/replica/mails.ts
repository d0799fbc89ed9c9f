import { Inject, Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { ReceiptService, type CronRun } from 'nestjs-distributed-cron';
import { createTransport } from 'nodemailer';
import { Boundaries } from './boundaries.js';
import { SETTINGS } from './settings.token.js';
import type { ReplicaSettings } from './settings.js';

/** Real mails over SMTP: an effect that no transaction holds. */
@Injectable()
export class Mails implements OnApplicationShutdown {
  private readonly transport;

  constructor(
    @Inject(SETTINGS) private readonly settings: ReplicaSettings,
    private readonly receipts: ReceiptService,
    private readonly boundaries: Boundaries,
  ) {
    this.transport = createTransport({
      host: '127.0.0.1',
      port: settings.smtpPort,
      secure: false,
      ignoreTLS: true,
      pool: true,
      maxConnections: 4,
    });
  }

  /**
   * Sent under the key of the occurrence: what is cut off between the sending and the answer's receipt is sent again.
   */
  async send(run: CronRun, entity: string): Promise<void> {
    const call = async (key: string) => {
      await this.boundaries.reach('before the mail', run, entity);
      await this.post(run, entity, key);
      await this.boundaries.reach('after the mail', run, entity);
    };
    await this.receipts.onceExternal(entity, call, { effect: 'mail', inDoubt: 'resend' });
  }

  private async post(run: CronRun, entity: string, key: string): Promise<void> {
    await this.transport.sendMail({
      from: 'replica@cluster.example',
      to: `${entity}@customers.example`,
      messageId: `<${key}@cluster.example>`,
      text: 'Your statement',
      headers: {
        'X-Job': run.jobName,
        'X-Fire-Time': run.fireTime.toISOString(),
        'X-Entity': entity,
        'X-Replica': this.settings.name,
      },
    });
  }

  onApplicationShutdown(): void {
    this.transport.close();
  }
}
