import { Injectable } from '@nestjs/common';
import { CronRun, DistributedCron, ReceiptService } from 'nestjs-distributed-cron';
import { Column, Entity, PrimaryColumn } from 'typeorm';

@Entity()
export class Invoice {
  @PrimaryColumn('text')
  customer!: string;

  @PrimaryColumn('timestamptz')
  day!: Date;

  @Column('int', { default: 1 })
  copies!: number;
}

@Injectable()
export class Customers {
  all() {
    return Promise.resolve([{ id: '4711' }, { id: '4712' }]);
  }
}

@Injectable()
export class Invoices {
  constructor(
    private readonly customers: Customers,
    private readonly receipts: ReceiptService,
  ) {}

  @DistributedCron('15 2 * * *', { name: 'nightly-invoices', timeZone: 'Europe/Berlin', owner: 'billing' })
  async send(run: CronRun) {
    for (const customer of await this.customers.all()) {
      run.signal.throwIfAborted();
      await this.receipts.once(customer.id, (manager) =>
        manager.insert(Invoice, { customer: customer.id, day: run.fireTime }),
      );
    }
  }
}
