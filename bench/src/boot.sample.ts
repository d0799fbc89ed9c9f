import { performance } from 'node:perf_hooks';
import { NestFactory } from '@nestjs/core';
import { DistributedSchedulerModule, JobRegistry } from '../../dist/lib/index.js';
import { JobCursors } from '../../dist/lib/jobs/job-cursors.js';
import { jobClass } from './job-class.js';
import { declarations } from './jobs.js';

/** What one process needed, from the modules to the first due instant. */
export interface BootSample {
  readonly millis: number;
}

const [url, count] = process.argv.slice(2);
const Jobs = jobClass(declarations(Number(count)));

// Its lines are written, and thrown away: the standard output is for the sample.
const logger = { log: () => {}, warn: () => {}, error: console.error };
const scheduler = DistributedSchedulerModule.forRoot({ connection: url!, migrate: true });

const startedAt = performance.now();
const app = await NestFactory.createApplicationContext(
  { module: Jobs, imports: [scheduler], providers: [Jobs] },
  { logger, abortOnError: false },
);
const nextDueAt = app.get(JobCursors, { strict: false }).nextDueAt;
const millis = performance.now() - startedAt;
if (app.get(JobRegistry).list().length !== Number(count) || !Number.isFinite(nextDueAt))
  throw new Error('Not every job is scheduled.');
await app.close();
console.log(JSON.stringify({ millis } satisfies BootSample));
