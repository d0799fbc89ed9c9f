import { Injectable, type Type } from '@nestjs/common';
import {
  DistributedCron,
  DistributedCronHandler,
  DistributedCronPage,
  FanOutService,
  type CronRun,
  type Page,
} from 'nestjs-distributed-cron';
import type { ReplicaJob } from './settings.js';
import { Steps } from './steps.js';

/** A class of its own for each job, decorated as an application's would be. */
export function jobProvider({ cron, steps: own, pages, pageEnds: _, ...options }: ReplicaJob): Type {
  @Injectable()
  class Job {
    constructor(
      protected readonly steps: Steps,
      protected readonly fanOut: FanOutService,
    ) {}

    @DistributedCron(cron, options)
    async run(run: CronRun): Promise<void> {
      await this.steps.take(own, run);
      if (pages) await this.fanOut.publish(Object.keys(pages).map((id) => ({ id })));
    }
  }
  if (!pages) return Job;

  const page = async function (this: Job, run: CronRun, { id }: Page): Promise<void> {
    await this['steps'].take(pages[id] ?? [], run);
  };
  Object.defineProperty(Job.prototype, 'page', { value: page, configurable: true, writable: true });
  DistributedCronPage(options.name, { concurrency: Object.keys(pages).length })(
    Job.prototype,
    'page',
    Object.getOwnPropertyDescriptor(Job.prototype, 'page')!,
  );
  return Job;
}

/** A handler of jobs that are made at run time. */
export function handlerProvider(name: string): Type {
  @Injectable()
  class Handler {
    @DistributedCronHandler(name)
    run(): void {}
  }
  return Handler;
}
