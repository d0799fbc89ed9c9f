import { Module } from '@nestjs/common';
import { DistributedSchedulerModule } from 'nestjs-distributed-cron';
import { AppController } from './app.controller';
import { AppService } from './app.service';
import { Greetings } from './greetings';

@Module({
  imports: [DistributedSchedulerModule.forRoot({ migrate: true })],
  controllers: [AppController],
  providers: [AppService, Greetings],
})
export class AppModule {}
