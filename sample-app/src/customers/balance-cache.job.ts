import { Injectable } from '@nestjs/common';
import { DistributedCron } from 'nestjs-distributed-cron';
import { DataSource } from 'typeorm';
import { CRONS } from '../schedules.js';
import { CustomerBalance } from './customer-balance.entity.js';
import { Invoice } from '../invoices/invoice.entity.js';

/** Keeps the balances fresh. Nobody wants a refresh that is two seconds old: what was missed is skipped. */
@Injectable()
export class BalanceCacheJob {
  constructor(private readonly dataSource: DataSource) {}

  @DistributedCron(CRONS.balances, {
    name: 'balance-cache',
    owner: 'customers',
    missed: 'skip',
    lateAfter: '2s',
    maxAttempts: 5,
    backoff: '500ms',
  })
  async refresh(): Promise<void> {
    const balances = this.dataSource.getMetadata(CustomerBalance).tablePath;
    const invoices = this.dataSource.getMetadata(Invoice).tablePath;
    await this.dataSource.query(`
      insert into ${balances} (customer_id, balance_cents, refreshed_at)
      select customer_id, sum(amount_cents) filter (where paid_at is null), clock_timestamp()
      from   ${invoices}
      group  by customer_id
      on     conflict (customer_id) do update
      set    balance_cents = excluded.balance_cents,
             refreshed_at = excluded.refreshed_at`);
  }
}
