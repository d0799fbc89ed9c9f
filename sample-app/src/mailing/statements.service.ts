import { Injectable } from '@nestjs/common';
import type { CronRun } from 'nestjs-distributed-cron';
import { IsNull, type EntityManager } from 'typeorm';
import type { Customer } from '../customers/customer.entity.js';
import { Invoice } from '../invoices/invoice.entity.js';
import { OutboxMail } from './outbox-mail.entity.js';
import { Statement } from './statement.entity.js';

@Injectable()
export class Statements {
  /** Writes the statement and the mail that must follow it, in the transaction of the receipt. */
  async issue(manager: EntityManager, run: CronRun, customer: Customer): Promise<void> {
    const { fireTime, attempt } = run;
    const open = await manager.findBy(Invoice, { customerId: customer.id, paidAt: IsNull() });
    const balanceCents = String(open.reduce((sum, { amountCents }) => sum + amountCents, 0));
    await manager.insert(Statement, { customerId: customer.id, fireTime, balanceCents, attempt });
    await manager.insert(OutboxMail, {
      messageId: run.idempotencyKey(customer.id),
      customerId: customer.id,
      fireTime,
      recipient: customer.email,
      body: letter(customer, open, balanceCents),
    });
  }
}

function letter({ name }: Customer, open: readonly Invoice[], balanceCents: string): string {
  const lines = open.map(({ number, dueOn, amountCents }) => `${number}  due ${dueOn}  ${euros(amountCents)}`);
  return [`Dear ${name},`, '', 'these invoices are open:', '', ...lines, '', `Together: ${euros(Number(balanceCents))}`].join('\n');
}

function euros(cents: number): string {
  return `${(cents / 100).toFixed(2)} EUR`;
}
