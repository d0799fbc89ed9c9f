import { Injectable } from '@nestjs/common';
import type { CronRun } from 'nestjs-distributed-cron';
import { IsNull, type EntityManager } from 'typeorm';
import type { Customer } from '../customers/customer.entity.js';
import { Invoice } from '../invoices/invoice.entity.js';
import { Statement } from './statement.entity.js';

@Injectable()
export class Statements {
  /**
   * Writes the statement, in the transaction of the receipt.
   * @returns the letter, which the receipt keeps: a later attempt mails what the first has written
   */
  async issue(manager: EntityManager, run: CronRun, customer: Customer): Promise<string> {
    const { fireTime, attempt } = run;
    const open = await manager.findBy(Invoice, { customerId: customer.id, paidAt: IsNull() });
    const balanceCents = String(open.reduce((sum, { amountCents }) => sum + amountCents, 0));
    await manager.insert(Statement, { customerId: customer.id, fireTime, balanceCents, attempt });
    return letter(customer, open, balanceCents);
  }
}

function letter({ name }: Customer, open: readonly Invoice[], balanceCents: string): string {
  const lines = open.map(({ number, dueOn, amountCents }) => `${number}  due ${dueOn}  ${euros(amountCents)}`);
  return [
    `Dear ${name},`,
    '',
    'these invoices are open:',
    '',
    ...lines,
    '',
    `Together: ${euros(Number(balanceCents))}`,
  ].join('\n');
}

function euros(cents: number): string {
  return `${(cents / 100).toFixed(2)} EUR`;
}
