import { Module } from '@nestjs/common';
import { CustomersModule } from '../customers/customers.module.js';
import { InvoicesModule } from '../invoices/invoices.module.js';
import { Mailer } from './mailer.js';
import { StatementMailingJob } from './statement-mailing.job.js';
import { Statements } from './statements.service.js';

@Module({
  imports: [CustomersModule, InvoicesModule],
  providers: [Mailer, Statements, StatementMailingJob],
})
export class MailingModule {}
