import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { IsNull, Repository } from 'typeorm';
import { Mailer } from './mailer.js';
import { OutboxMail } from './outbox-mail.entity.js';

/**
 * Sends what was written down. A mail is an effect outside the database, so it can be cut off between sending and
 * marking; then it is sent again under the same Message-ID, and the receiving side drops the second one.
 */
@Injectable()
export class Outbox {
  constructor(
    @InjectRepository(OutboxMail) private readonly mails: Repository<OutboxMail>,
    private readonly mailer: Mailer,
  ) {}

  async deliver(messageId: string): Promise<void> {
    for (const mail of await this.mails.findBy({ messageId, sentAt: IsNull() })) {
      await this.mailer.send(mail);
      await this.mails.update({ id: mail.id }, { sentAt: () => 'clock_timestamp()' });
    }
  }
}
