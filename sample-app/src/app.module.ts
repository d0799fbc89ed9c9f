import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DistributedSchedulerModule } from 'nestjs-distributed-cron';
import { DataSource } from 'typeorm';
import { CustomersModule } from './customers/customers.module.js';
import { databaseOptions } from './database.js';
import { DemoModule } from './demo/demo.module.js';
import { InvoicesModule } from './invoices/invoices.module.js';
import { MailingModule } from './mailing/mailing.module.js';
import { ReportsModule } from './reports/reports.module.js';
import { LEASE_MS, REAPER_PASS_MS } from './schedules.js';
import { SettingsModule } from './settings.module.js';
import { SETTINGS, type Settings } from './settings.js';

@Module({
  imports: [
    SettingsModule,
    TypeOrmModule.forRootAsync({
      inject: [SETTINGS],
      useFactory: (settings: Settings) => ({ ...databaseOptions(settings), retryAttempts: 0 }),
    }),
    DistributedSchedulerModule.forRootAsync({
      inject: [DataSource, SETTINGS],
      useFactory: (dataSource: DataSource, { schema }: Settings) => ({
        dataSource,
        schema,
        migrate: true,
        pollInterval: REAPER_PASS_MS,
        shutdownTimeout: '3s',
        defaults: { lease: LEASE_MS, timeZone: 'UTC' },
      }),
    }),
    CustomersModule,
    InvoicesModule,
    MailingModule,
    ReportsModule,
    DemoModule,
  ],
})
export class AppModule {}
