import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { CustomersModule } from '../customers/customers.module.js';
import { InvoicesModule } from '../invoices/invoices.module.js';
import { Mailer } from './mailer.js';
import { OutboxMail } from './outbox-mail.entity.js';
import { Outbox } from './outbox.service.js';
import { StatementMailingJob } from './statement-mailing.job.js';
import { Statements } from './statements.service.js';

@Module({
  imports: [CustomersModule, InvoicesModule, TypeOrmModule.forFeature([OutboxMail])],
  providers: [Mailer, Outbox, Statements, StatementMailingJob],
})
export class MailingModule {}
