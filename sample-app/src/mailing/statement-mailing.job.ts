import { Injectable, Logger } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { DistributedCron, LeaseLostError, neverConnected, ReceiptService, type CronRun } from 'nestjs-distributed-cron';
import { setTimeout as sleep } from 'node:timers/promises';
import { Repository } from 'typeorm';
import { Customer } from '../customers/customer.entity.js';
import { CRONS } from '../schedules.js';
import { Mailer } from './mailer.js';
import { Statements } from './statements.service.js';

/** As long as a page takes to be rendered: slow enough for a replica to die in the middle. */
const RENDERING_MS = 100;

/** Mails every customer a statement. */
@Injectable()
export class StatementMailingJob {
  private readonly logger = new Logger(StatementMailingJob.name);

  constructor(
    @InjectRepository(Customer) private readonly customers: Repository<Customer>,
    private readonly receipts: ReceiptService,
    private readonly statements: Statements,
    private readonly mailer: Mailer,
  ) {}

  @DistributedCron(CRONS.statements, {
    name: 'customer-statements',
    owner: 'billing',
    overlap: 'forbid',
    missed: 'once',
    maxAttempts: 5,
    backoff: '1s',
  })
  async mail(run: CronRun): Promise<void> {
    for (const customer of await this.customers.find({ order: { id: 'ASC' } })) {
      run.signal.throwIfAborted();
      await this.mailOne(run, customer);
    }
  }

  /** First the database, exactly once; then the mail: one that was cut off waits for a person, and nobody gets two. */
  private async mailOne(run: CronRun, customer: Customer): Promise<void> {
    try {
      const statement = await this.receipts.once(customer.id, (manager) =>
        this.statements.issue(manager, run, customer),
      );
      await this.receipts.onceExternal(customer.id, (key) => this.mailer.send(run, customer, statement.result!, key), {
        effect: 'mail',
        inDoubt: 'park',
        notDone: (error) => neverConnected(error) || Mailer.isRefused(error),
      });
      if (statement.applied) await sleep(RENDERING_MS);
    } catch (error) {
      if (error instanceof LeaseLostError) this.logger.warn(`No statement for ${customer.name}. ${error.message}`);
      throw error;
    }
  }
}
