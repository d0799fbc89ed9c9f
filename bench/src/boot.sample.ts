import 'reflect-metadata';
import { performance } from 'node:perf_hooks';
import { NestFactory } from '@nestjs/core';
import { DistributedCron, DistributedSchedulerModule, JobRegistry } from '../../dist/lib/index.js';
import { Timelines } from '../../dist/lib/scheduling/timelines.js';
import { declarations } from './jobs.js';

/** What one process needed, from the modules to the first due instant. */
export interface BootSample {
  readonly millis: number;
}

class Jobs {}

const [url, count] = process.argv.slice(2);
for (const { name, expression, timeZone } of declarations(Number(count))) {
  const handler = { value: () => {}, configurable: true, writable: true };
  Object.defineProperty(Jobs.prototype, name, handler);
  DistributedCron(expression, { name, timeZone })(Jobs.prototype, name, handler);
}

// Its lines are written, and thrown away: the standard output is for the sample.
const logger = { log: () => {}, warn: () => {}, error: console.error };
const scheduler = DistributedSchedulerModule.forRoot({ connection: url!, migrate: true });

const startedAt = performance.now();
const app = await NestFactory.createApplicationContext({ module: Jobs, imports: [scheduler], providers: [Jobs] }, { logger, abortOnError: false });
const nextDueAt = app.get(Timelines, { strict: false }).nextDueAt;
const millis = performance.now() - startedAt;
if (app.get(JobRegistry).list().length !== Number(count) || !Number.isFinite(nextDueAt)) throw new Error('Not every job is scheduled.');
await app.close();
console.log(JSON.stringify({ millis } satisfies BootSample));
