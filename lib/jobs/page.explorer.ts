import { Injectable } from '@nestjs/common';
import { nearestTo } from '../errors/errors.js';
import {
  type DecoratedMethod,
  DecoratedMethods,
  problemsOfGenerator,
  declaring,
} from './distributed-cron.decorator.js';
import { HandlerFactory, PAGE_PARAMETER, RUN_PARAMETER } from './handler.factory.js';
import type { PageHandler, PagePolicies, RegisteredJob } from './known-jobs.js';
import { PAGE_METADATA } from '../options/tokens.js';
import type { Duration } from '../options/duration.js';
import { JOB_OPTIONS } from '../options/defaults.js';
import type { BackoffOptions, JobDefinition } from '../options/job-definition.js';
import { readObject } from '../options/operator-options.js';
import { duration, integer, type OptionTable } from '../options/option-rules.js';

/** What a job's pages may say about themselves. Durations are milliseconds or strings such as `'30s'`. */
interface PageOptions {
  /** How many pages of the job are worked at a time by each replica; 1 to 1000. @default 5 */
  concurrency?: number;
  /** Attempts before a page is dead and waits for a person, the first one included. @default the job's */
  maxAttempts?: number;
  /** What a failed page waits for before its next attempt. @default the job's */
  backoff?: BackoffOptions;
  /**
   * How long a page may take: then its signal aborts with a `TimeoutError`, and the attempt has failed when its handler
   * ends. @default none
   */
  timeout?: Duration;
}

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

const PAGE_OPTIONS = {
  concurrency: { rule: integer({ atLeast: 1, atMost: 1_000 }) },
  maxAttempts: JOB_OPTIONS.maxAttempts,
  backoff: JOB_OPTIONS.backoff,
  timeout: { rule: duration({ atLeast: 1 }) },
} as const satisfies Record<keyof PageOptions, OptionTable[string]>;

const CONCURRENCY = 5;

/** @returns the policies, with all that is wrong with the options */
function readPageOptions(
  given: unknown,
  job: JobDefinition,
): { readonly policies: PagePolicies; readonly problems: readonly string[] } {
  const { values, problems } = readObject(given, PAGE_OPTIONS);
  const { concurrency = CONCURRENCY, maxAttempts = job.maxAttempts, backoff = job.backoff, timeout = null } = values;
  return { policies: Object.freeze({ concurrency, maxAttempts, backoff, timeoutMs: timeout }), problems };
}
