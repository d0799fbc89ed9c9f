import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { BankImportJob } from './bank-import.job.js';
import { Bank } from './bank.js';
import { Invoice } from './invoice.entity.js';

@Module({
  imports: [TypeOrmModule.forFeature([Invoice])],
  providers: [Bank, BankImportJob],
  exports: [TypeOrmModule],
})
export class InvoicesModule {}
