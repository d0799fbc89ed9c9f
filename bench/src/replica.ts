import { NestFactory } from '@nestjs/core';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { DistributedSchedulerModule, type CronRun } from '../../dist/lib/index.js';
import { jobClass } from './job-class.js';
import { machineNow } from './machine-clock.js';
import type { Order, ReplicaPlan, ReplicaReport, Start, Told } from './replica.messages.js';

/** A real replica in a process of its own, whose handlers note when they began and do no more. It obeys its parent. */

const [plan] = (await once(process, 'message')) as [ReplicaPlan];
let starts: Start[] = [];

async function handle({ jobName, fireTime, attempt }: CronRun): Promise<void> {
  starts.push({ jobName, fireTime: fireTime.getTime(), attempt, at: machineNow() });
  if (plan.handlerMs) await sleep(plan.handlerMs, undefined, { ref: false });
}

const Jobs = jobClass(
  plan.jobs.map(({ options, ...job }) => ({ ...job, ...options })),
  handle,
);

const scheduler = DistributedSchedulerModule.forRoot({
  connection: plan.url,
  migrate: true,
  logging: false,
  ...plan.scheduler,
});
const logger = { log: () => {}, warn: () => {}, error: console.error };
const app = await NestFactory.createApplicationContext(
  { module: Jobs, imports: [scheduler], providers: [Jobs] },
  { logger, abortOnError: false },
);

process.on('message', (order: Order) => void obey(order));
process.on('disconnect', () => process.exit());
tell({ type: 'ready' });

async function obey(order: Order): Promise<void> {
  switch (order.type) {
    case 'report':
      tell({ type: 'report', report: report() });
      starts = [];
      return;
    case 'block':
      // What a handler does that computes without a pause.
      for (const until = performance.now() + order.millis; performance.now() < until; );
      return;
    case 'close':
      await app.close();
      process.exit();
  }
}

function report(): ReplicaReport {
  const { user, system } = process.cpuUsage();
  return { starts, cpuMicros: user + system, at: machineNow(), megabytes: process.memoryUsage.rss() / 1e6 };
}

function tell(message: Told): void {
  process.send!(message);
}
