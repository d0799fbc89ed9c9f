import { Injectable } from '@nestjs/common';
import { DistributedCron, ReceiptService, type CronRun } from 'nestjs-distributed-cron';
import { CRONS } from '../schedules.js';
import { BankImport } from './bank-import.entity.js';
import { Bank } from './bank.js';

/** Fails twice and then works; each attempt may be another replica's. */
@Injectable()
export class BankImportJob {
  constructor(
    private readonly bank: Bank,
    private readonly receipts: ReceiptService,
  ) {}

  @DistributedCron(CRONS.bank, { name: 'bank-import', owner: 'accounting', maxAttempts: 6, backoff: '700ms' })
  async import(run: CronRun): Promise<void> {
    const { payments } = await this.bank.paymentsOf(run.fireTime, run.attempt);
    await this.receipts.once('statement of account', (manager) =>
      manager.insert(BankImport, { fireTime: run.fireTime, attempt: run.attempt, payments }).then(() => undefined),
    );
  }
}
