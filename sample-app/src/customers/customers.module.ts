import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { BalanceCacheJob } from './balance-cache.job.js';
import { CustomerBalance } from './customer-balance.entity.js';
import { Customer } from './customer.entity.js';

@Module({
  imports: [TypeOrmModule.forFeature([Customer, CustomerBalance])],
  providers: [BalanceCacheJob],
  exports: [TypeOrmModule],
})
export class CustomersModule {}
