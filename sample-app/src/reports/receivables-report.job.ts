import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { DistributedCron, ReceiptService, type CronRun } from 'nestjs-distributed-cron';
import { IsNull, Repository } from 'typeorm';
import { Invoice } from '../invoices/invoice.entity.js';
import { CRONS, LEASE_MS } from '../schedules.js';
import { forecastCents } from './forecast.js';
import { ReceivablesReport } from './receivables-report.entity.js';

/** Blocks the event loop for longer than its lease, and keeps its run: the heartbeat has a thread of its own. */
@Injectable()
export class ReceivablesReportJob {
  constructor(
    @InjectRepository(Invoice) private readonly invoices: Repository<Invoice>,
    private readonly receipts: ReceiptService,
  ) {}

  @DistributedCron(CRONS.report, { name: 'receivables-report', owner: 'accounting', maxAttempts: 5, backoff: '1s' })
  async report(run: CronRun): Promise<void> {
    const open = await this.invoices.findBy({ paidAt: IsNull() });
    const startedAt = performance.now();
    const expectedCents = String(
      forecastCents(
        open.map(({ amountCents }) => amountCents),
        LEASE_MS * 1.5,
      ),
    );
    const blockedMs = Math.round(performance.now() - startedAt);
    await this.receipts.once('report', async (manager) => {
      await manager.insert(ReceivablesReport, {
        fireTime: run.fireTime,
        attempt: run.attempt,
        blockedMs,
        expectedCents,
      });
    });
  }
}
