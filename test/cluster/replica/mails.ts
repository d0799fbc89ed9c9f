import { Inject, Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { ClaimService, ReceiptService, type CronRun } from 'nestjs-distributed-cron';
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
    private readonly claims: ClaimService,
    private readonly receipts: ReceiptService,
    private readonly boundaries: Boundaries,
  ) {
    this.transport = createTransport({ host: '127.0.0.1', port: settings.smtpPort, secure: false, ignoreTLS: true, pool: true, maxConnections: 4 });
  }

  /** Sent under the key of the occurrence, and recorded when the server has taken it: what is cut off in between is sent again. */
  async send(run: CronRun, entity: string): Promise<void> {
    const receipts = await this.claims.receiptsOf(run);
    if (receipts.some((receipt) => receipt.entity === entity && receipt.effect === 'mail')) return;
    await this.boundaries.reach('before the mail', run, entity);
    await this.post(run, entity, run.idempotencyKey(entity, 'mail'));
    await this.boundaries.reach('after the mail', run, entity);
    await this.receipts.once(entity, () => undefined, { effect: 'mail' });
  }

  private async post(run: CronRun, entity: string, key: string): Promise<void> {
    await this.transport.sendMail({
      from: 'replica@cluster.example',
      to: `${entity}@customers.example`,
      messageId: `<${key}@cluster.example>`,
      text: 'Your statement',
      headers: { 'X-Job': run.jobName, 'X-Fire-Time': run.fireTime.toISOString(), 'X-Entity': entity, 'X-Replica': this.settings.name },
    });
  }

  onApplicationShutdown(): void {
    this.transport.close();
  }
}
