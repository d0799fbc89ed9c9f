import { Injectable } from '@nestjs/common';
import { nearestTo } from '../errors/errors.js';
import { type DecoratedMethod, DecoratedMethods, problemsOfGenerator } from '../jobs/decorated-methods.js';
import { declaring } from '../jobs/distributed-cron.decorator.js';
import { HandlerFactory, PAGE_PARAMETER, RUN_PARAMETER } from '../jobs/handler.factory.js';
import type { RegisteredJob } from '../jobs/known-jobs.js';
import { PAGE_METADATA } from '../options/tokens.js';
import type { PageHandler } from './page-handler.js';
import { type PageOptions, readPageOptions } from './page.js';

/** One `@DistributedCronPage` on one method. */
export interface PageDeclaration {
  readonly jobName: string;
  readonly options: PageOptions;
}

/**
 * Makes a method of a provider or controller the handler of a job's pages: those that the job's tick publishes with
 * `FanOutService.publish`. It is called with a `CronRun` of the same occurrence, whose attempt is the page's, and the
 * `Page`. On every replica, for as many pages at a time as `concurrency` says. Otherwise it is as a method with
 * `@DistributedCron`.
 *
 * @param jobName the job's name; its pages have one handler
 */
export function DistributedCronPage(jobName: string, options: PageOptions = {}): MethodDecorator {
  return declaring('DistributedCronPage', PAGE_METADATA, { jobName, options });
}

/** Gathers the handlers of pages, at module init. */
@Injectable()
export class PageExplorer {
  constructor(
    private readonly methods: DecoratedMethods,
    private readonly handlers: HandlerFactory,
  ) {}

  /** @param problems takes what is wrong with them */
  explore(jobs: readonly RegisteredJob[], problems: string[]): Map<string, PageHandler> {
    const byName = new Map(jobs.map(({ definition }) => [definition.name, definition]));
    const found = new Map<string, PageHandler>();
    for (const method of this.methods.find<PageDeclaration>(PAGE_METADATA)) {
      const declaredBy = `${method.className}.${method.methodName}`;
      problems.push(...problemsOfGenerator(method));
      for (const { jobName, options } of method.declarations) {
        const job = byName.get(jobName);
        if (!job) {
          problems.push(unknownJob(declaredBy, jobName, [...byName.keys()]));
          continue;
        }
        const { policies, problems: wrong } = readPageOptions(options, job);
        problems.push(...wrong.map((problem) => `${declaredBy}: @DistributedCronPage("${jobName}"): ${problem}`));
        const other = found.get(jobName);
        if (other)
          problems.push(
            `The pages of job "${jobName}" are declared by both ${other.declaredBy} and ${declaredBy}; a job has one handler for them.`,
          );
        const handler = { handler: this.create(method), policies, declaredBy };
        // What is still open of a former name is finished under it.
        for (const name of [jobName, ...job.previously]) found.set(name, handler);
      }
    }
    return found;
  }

  private create({ wrapper, methodName }: DecoratedMethod<unknown>): PageHandler['handler'] {
    return this.handlers.create(wrapper, methodName, [RUN_PARAMETER, PAGE_PARAMETER]);
  }
}

function unknownJob(declaredBy: string, jobName: unknown, known: readonly string[]): string {
  const nearest = nearestTo(String(jobName), known);
  const there =
    nearest !== null
      ? `did you mean "${nearest}"?`
      : known.length > 0
        ? `there are ${known.map((name) => `"${name}"`).join(', ')}.`
        : 'there is none.';
  return `${declaredBy}: @DistributedCronPage: there is no job "${String(jobName)}" among those declared with @DistributedCron; ${there}`;
}
