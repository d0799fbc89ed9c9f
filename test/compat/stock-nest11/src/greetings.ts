import { Injectable } from '@nestjs/common';
import { CronRun, DistributedCron } from 'nestjs-distributed-cron';

@Injectable()
export class Greetings {
  readonly said: string[] = [];

  @DistributedCron('*/10 * * * * *', { name: 'greeting' })
  hello(run: CronRun) {
    this.said.push(`It is ${run.fireTime.toISOString()}, attempt ${run.attempt}.`);
  }
}
