import { Injectable } from '@nestjs/common';
import { SchedulerService } from 'nestjs-distributed-cron';
import type { Finding } from './messages.js';

/**
 * Where a person says what came of mails in doubt; in the demo it is the process that started this one that has asked
 * the mail server.
 */
@Injectable()
export class Desk {
  constructor(private readonly scheduler: SchedulerService) {
    process.on('message', (finding: Finding) => void this.decide(finding));
  }

  private async decide({ idempotencyKey, taken }: Finding): Promise<void> {
    const [mail] = await this.scheduler.inDoubt({ idempotencyKey });
    if (!mail) return;
    const by = 'the demo';
    if (taken)
      return void (await this.scheduler.resolveInDoubt({ idempotencyKey }, 'done', {
        by,
        reason: 'the mail server has it',
      }));
    await this.scheduler.resolveInDoubt({ idempotencyKey }, 'undone', {
      by,
      reason: 'the mail server has never seen it',
    });
    // Receipts keep what was done; only what was not is made up for.
    await this.scheduler.replay(mail.jobName, mail.fireTime, { by, reason: 'for the mail that was not sent' });
  }
}
