import { NestFactory } from '@nestjs/core';
import type { INestApplicationContext } from '@nestjs/common';
import { DistributedSchedulerModule, JobRegistry } from '../../dist/lib/index.js';
import { jobClass } from './job-class.js';

export type BootOrder = 'start' | 'close';

/**
 * What it tells when it is loaded: nothing more; when it is up: the processor time that it took to be, of all threads,
 * in milliseconds.
 */
export interface BootTold {
  readonly state: 'loaded' | 'up';
  readonly cpuMs: number;
}

/**
 * A replica that loads its code, and makes its application when it is told to; without an address, one without a
 * scheduler.
 */

/** A service has few; what each costs when it is met first, `schedules` measures. */
const ZONES = ['UTC', 'Europe/Berlin', 'America/New_York', 'America/Los_Angeles', 'Asia/Tokyo'];

const [url, count] = process.argv.slice(2);
// Nothing comes due meanwhile.
const Jobs = jobClass(
  Array.from({ length: Number(count) }, (_, index) => ({
    name: `job-${index}`,
    expression: `${index % 60} ${index % 24} 29 2 *`,
    timeZone: ZONES[index % ZONES.length]!,
  })),
);

let app: INestApplicationContext | null = null;
process.on('message', (order: BootOrder) => void (order === 'start' ? start() : close()));
process.on('disconnect', () => process.exit());
tell({ state: 'loaded', cpuMs: 0 });

async function start(): Promise<void> {
  const before = process.cpuUsage();
  // The first poll is later than all that is counted.
  const scheduler = url
    ? [DistributedSchedulerModule.forRoot({ connection: url, migrate: true, pollInterval: '1m' })]
    : [];
  const logger = { log: () => {}, warn: () => {}, error: console.error };
  app = await NestFactory.createApplicationContext(
    { module: Jobs, imports: scheduler, providers: [Jobs] },
    { logger, abortOnError: false },
  );
  if (url && app.get(JobRegistry, { strict: false }).list().length !== Number(count))
    throw new Error('Not every job is registered.');
  const { user, system } = process.cpuUsage(before);
  tell({ state: 'up', cpuMs: (user + system) / 1_000 });
}

async function close(): Promise<void> {
  await app?.close();
  process.exit();
}

function tell(told: BootTold): void {
  process.send!(told);
}
