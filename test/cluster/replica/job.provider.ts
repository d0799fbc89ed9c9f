import { Injectable, type Type } from '@nestjs/common';
import { DistributedCron, type CronRun } from 'nestjs-distributed-cron';
import type { ReplicaJob } from './settings.js';
import { Steps } from './steps.js';

/** A class of its own for each job, decorated as an application's would be. */
export function jobProvider({ cron, steps: own, ...options }: ReplicaJob): Type {
  @Injectable()
  class Job {
    constructor(private readonly steps: Steps) {}

    @DistributedCron(cron, options)
    run(run: CronRun): Promise<void> {
      return this.steps.take(own, run);
    }
  }
  return Job;
}
