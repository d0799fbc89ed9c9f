import { Module } from '@nestjs/common';
import { DistributedSchedulerModule } from 'nestjs-distributed-cron';
import { DistributedCronBullMqModule } from 'nestjs-distributed-cron/bullmq';
import { Statement } from '../src/mailing/statement.entity.js';
import { StatementRunJob } from './statement-run.job.js';

/** BullMQ uses the scheduler's own database: there is nothing else to set up. */
@Module({
  imports: [
    DistributedSchedulerModule.forRootAsync({
      useFactory: () => ({
        connection: { url: process.env.DATABASE_URL!, entities: [Statement] },
        migrate: true,
        pollInterval: '500ms',
        enabled: process.env.REPLICA_NAME !== undefined,
        logging: false,
      }),
    }),
    DistributedCronBullMqModule.forRoot({ redeliverAfter: '2s' }),
  ],
  providers: [StatementRunJob],
})
export class AppModule {}
