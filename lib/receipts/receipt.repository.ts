import { Repository } from 'typeorm';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import type { RunKey } from '../options/run.js';
import { Receipt } from './receipt.entity.js';

export { Receipt };

/** The receipts, as everybody may read them. They are written by `ReceiptService` alone, in the effect's transaction. */
export class ReceiptRepository extends Repository<Receipt> {
  constructor(database: SchedulerDatabase) {
    super(Receipt, database.coordination.manager);
  }

  /** The receipts of one occurrence, oldest first. */
  ofOccurrence({ jobName, fireTime }: RunKey): Promise<Receipt[]> {
    return this.find({ where: { jobName, fireTime }, order: { createdAt: 'ASC' } });
  }
}
