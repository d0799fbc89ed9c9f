import { PAGE_METADATA } from '../distributed-scheduler.tokens.js';
import type { PageOptions } from '../options/page-options.js';
import { declaring } from './distributed-cron.decorator.js';

/** One `@DistributedCronPage` on one method. */
export interface PageDeclaration {
  readonly jobName: string;
  readonly options: PageOptions;
}

/**
 * Makes a method of a provider or controller the handler of a job's pages: those that the job's tick publishes with
 * `FanOutService.publish`. It is called with a `CronRun` of the same occurrence, whose attempt is the page's, and the `Page`. On
 * every replica, for as many pages at a time as `concurrency` says. Otherwise it is as a method with `@DistributedCron`.
 *
 * @param jobName the job's name; its pages have one handler
 */
export function DistributedCronPage(jobName: string, options: PageOptions = {}): MethodDecorator {
  return declaring('DistributedCronPage', PAGE_METADATA, { jobName, options });
}
