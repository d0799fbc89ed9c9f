import { Injectable } from '@nestjs/common';
import { PAGE_METADATA } from '../distributed-scheduler.tokens.js';
import { nearestTo } from '../domain/unknown-option.js';
import { readPageOptions } from '../options/page-options.js';
import { DecoratedMethods, problemsOfGenerator, type DecoratedMethod } from './decorated-methods.js';
import type { PageDeclaration } from './distributed-cron-page.decorator.js';
import { PAGE_PARAMETER, RUN_PARAMETER } from './handler-parameters.js';
import { HandlerFactory } from './handler.factory.js';
import type { RegisteredJob } from './known-jobs.js';
import type { PageHandler } from './page-handler.js';

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
        if (other) problems.push(`The pages of job "${jobName}" are declared by both ${other.declaredBy} and ${declaredBy}; a job has one handler for them.`);
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
  const there = nearest !== null ? `did you mean "${nearest}"?` : known.length > 0 ? `there are ${known.map((name) => `"${name}"`).join(', ')}.` : 'there is none.';
  return `${declaredBy}: @DistributedCronPage: there is no job "${String(jobName)}" among those declared with @DistributedCron; ${there}`;
}
