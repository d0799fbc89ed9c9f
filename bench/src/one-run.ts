import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import {
  DistributedCron,
  DistributedSchedulerModule,
  ReceiptService,
  type DistributedSchedulerOptions,
} from '../../dist/lib/index.js';
import { runJob } from '../../dist/lib/testing/index.js';

/** Does the work as the handler of one occurrence, in an application of its own. */
export async function inOneRun(
  options: DistributedSchedulerOptions,
  work: (receipts: ReceiptService) => Promise<void>,
): Promise<void> {
  class Job {}
  let receipts!: ReceiptService;
  const handler = { value: () => work(receipts), configurable: true, writable: true };
  Object.defineProperty(Job.prototype, 'run', handler);
  // Nothing renews a lease where the scheduler is not enabled.
  DistributedCron('0 * * * *', { name: 'bench', lease: '12h' })(Job.prototype, 'run', handler);
  const scheduler = DistributedSchedulerModule.forRoot({ migrate: true, enabled: false, logging: false, ...options });
  const app = await NestFactory.createApplicationContext(
    { module: Job, imports: [scheduler], providers: [Job] },
    { logger: ['error'], abortOnError: false },
  );
  receipts = app.get(ReceiptService);
  const end = await runJob(app, 'bench');
  await app.close();
  if (end.type !== 'run.completed') throw new Error(`The run did not end well: ${JSON.stringify(end)}`);
}
