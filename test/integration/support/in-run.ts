import { Injectable } from '@nestjs/common';
import type { TestingModule } from '@nestjs/testing';
import { CronRun, DistributedCron, ReceiptService, type DistributedSchedulerOptions } from '../../../lib/index.js';
import { runJob } from '../../../lib/testing/index.js';
import type { TestDatabase } from '../../support/database.js';
import { startApp } from './apps.js';

let jobs = 0;

/** What the work in a run is given. */
export interface InRun {
  readonly receipts: ReceiptService;
  readonly run: CronRun;
  readonly app: TestingModule;
}

/** Does the work as the handler of one occurrence. @returns its result; throws what it throws */
export async function inRun<Result>(
  database: TestDatabase,
  work: (here: InRun) => Promise<Result>,
  options: DistributedSchedulerOptions = {},
): Promise<Result> {
  const name = `job ${(jobs += 1)}`;
  let working: Promise<{ result: Result } | { thrown: unknown }> | undefined;
  @Injectable()
  class Job {
    constructor(private readonly receipts: ReceiptService) {}

    @DistributedCron('* * * * * *', { name, overlap: 'allow' })
    async run(run: CronRun) {
      working = work({ receipts: this.receipts, run, app }).then(
        (result) => ({ result }),
        (thrown: unknown) => ({ thrown }),
      );
      await working;
    }
  }
  const app = await startApp(database, { providers: [Job] }, { enabled: false, ...options });
  await runJob(app, name);
  // A run that its handler has completed is done before its handler is.
  const end = await working!;
  if ('thrown' in end) throw end.thrown;
  return end.result;
}
