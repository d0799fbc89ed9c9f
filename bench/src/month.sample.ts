import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { ClaimService, DistributedCron, DistributedSchedulerModule, JobRegistry } from '../../dist/lib/index.js';
import { RunEndsStore } from '../../dist/lib/store/runs/run-ends.store.js';

/** Claims and ends so many runs as an instance does under load, and no more. */
const JOBS = 100;

class Jobs {}

const [url, runs] = process.argv.slice(2);
for (let index = 0; index < JOBS; index++) {
  const name = `history-${index}`;
  const handler = { value: () => {}, configurable: true, writable: true };
  Object.defineProperty(Jobs.prototype, name, handler);
  DistributedCron('* * * * * *', { name, overlap: 'allow' })(Jobs.prototype, name, handler);
}

const scheduler = DistributedSchedulerModule.forRoot({ connection: url!, migrate: true, logging: false, enabled: false });
const app = await NestFactory.createApplicationContext({ module: Jobs, imports: [scheduler], providers: [Jobs] }, { logger: false, abortOnError: false });
const claims = app.get(ClaimService, { strict: false });
const ends = app.get(RunEndsStore, { strict: false });
const jobs = app.get(JobRegistry, { strict: false }).list().map(({ definition }) => definition);
const now = Math.floor(Date.now() / 1_000);
for (let second = 1; second <= Number(runs) / JOBS; second++) {
  const fireTime = (now - second) * 1_000;
  const { owned } = await claims.claimDue(jobs.map((job) => ({ job, fireTime, startsAt: fireTime, byHand: true })));
  const answers = await ends.endAll(owned.map((run) => ({ run, ending: null })));
  if (answers.filter(({ kind }) => kind === 'written').length !== JOBS) throw new Error('Not all runs were claimed and ended.');
}
await app.close();
console.log('{}');
