import { setImmediate } from 'node:timers/promises';
import { NestFactory } from '@nestjs/core';
import { DistributedSchedulerModule, JobRegistry } from '../../dist/lib/index.js';
import { jobClass } from './job-class.js';
import { declarations } from './jobs.js';
import { SimulatedDay } from './simulated-day.js';
import { usedMegabytes } from './used-memory.js';

/** Megabytes of one process. */
export interface MemorySample {
  readonly started: number;
  readonly afterHalf: number;
  readonly afterAll: number;
  /** How many occurrences came due. */
  readonly fires: number;
}

const [url, count, hours] = process.argv.slice(2);
const Jobs = jobClass(declarations(Number(count)), () => setImmediate());

// Not enabled: the clock is the sample's, and nothing runs by the machine's.
const scheduler = DistributedSchedulerModule.forRoot({
  connection: url!,
  migrate: true,
  logging: false,
  enabled: false,
  maxConcurrentRuns: 10_000,
});
const app = await NestFactory.createApplicationContext(
  { module: Jobs, imports: [scheduler], providers: [Jobs] },
  { logger: false, abortOnError: false },
);
if (app.get(JobRegistry).list().length !== Number(count)) throw new Error('Not every job is there.');
const day = new SimulatedDay(app);
const started = await usedMegabytes();
await day.run(Number(hours) / 2);
const afterHalf = await usedMegabytes();
await day.run(Number(hours) / 2);
const afterAll = await usedMegabytes();
await app.close();
console.log(JSON.stringify({ started, afterHalf, afterAll, fires: day.fires } satisfies MemorySample));
