import { Module } from '@nestjs/common';
import { InvoicesModule } from '../invoices/invoices.module.js';
import { ReceivablesReportJob } from './receivables-report.job.js';

@Module({
  imports: [InvoicesModule],
  providers: [ReceivablesReportJob],
})
export class ReportsModule {}
