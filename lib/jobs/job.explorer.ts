import { Inject, Injectable } from '@nestjs/common';
import { InvalidOptionsError } from '../errors/errors.js';
import { PageExplorer } from './page.explorer.js';
import { JOB_OPTIONS } from '../options/defaults.js';
import type { JobDefinition } from '../options/job-definition.js';
import { text } from '../options/option-rules.js';
import { resolveJob } from '../options/resolve-job.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { problemsOfRetention } from '../options/retention.js';
import { CRON_METADATA, HANDLER_METADATA, PAGE_METADATA, SCHEDULER_OPTIONS } from '../options/tokens.js';
import {
  bySharedDeclarations,
  type DecoratedMethod,
  DecoratedMethods,
  inherits,
  problemsOfGenerator,
  type CronDeclaration,
} from './distributed-cron.decorator.js';
import { HandlerFactory } from './handler.factory.js';
import type { Declarations, RegisteredJob, RunTimeHandler } from './known-jobs.js';

const jobName = JOB_OPTIONS.name.rule;
/** As the name of a job is read: both are stored. */
const handlerName = text(200);

/** Gathers what the decorators declare, at module init, and finds everything wrong with it at once. */
@Injectable()
export class JobExplorer {
  constructor(
    private readonly methods: DecoratedMethods,
    private readonly handlers: HandlerFactory,
    private readonly pages: PageExplorer,
    @Inject(SCHEDULER_OPTIONS) private readonly options: ResolvedSchedulerOptions,
  ) {}

  /** Whether there are instances of all that it would find. */
  get mayExplore(): boolean {
    return [CRON_METADATA, HANDLER_METADATA, PAGE_METADATA].every((key) => this.methods.areMade(key));
  }

  /** What is around all handlers is found. */
  prepare(): Promise<void> {
    return this.handlers.prepare();
  }

  /** @throws InvalidOptionsError that names every class, method and job with a problem */
  explore(): Declarations {
    const problems: string[] = [];
    const jobs = this.jobs(problems);
    const handlers = this.runTimeHandlers(problems);
    const pages = this.pages.explore(jobs, problems);
    problems.push(...problemsOfFormerNames(jobs), ...problemsOfGroups(jobs.map(({ definition }) => definition)));
    if (this.options.strict)
      problems.push(
        ...implicitJobs(jobs).map(
          ({ declaredBy, name, implicit }) =>
            `${declaredBy}: job "${name}" leaves ${implicit.join(', ')} implicit, and strict is on: say it.`,
        ),
      );
    if (problems.length > 0)
      throw new InvalidOptionsError(
        problems,
        `The declared jobs cannot be scheduled:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`,
      );
    return { jobs, handlers, pages };
  }

  private jobs(problems: string[]): RegisteredJob[] {
    const declared = new Map<string, DecoratedMethod<CronDeclaration>>();
    const jobs: RegisteredJob[] = [];
    const methods = this.methods.find<CronDeclaration>(CRON_METADATA);
    const shared = bySharedDeclarations(methods);
    for (const method of methods) {
      // A class and one that extends it would do the same work twice.
      const base = shared.get(method.declarations)!.find((other) => inherits(method, other));
      if (base) {
        problems.push(inheritance(method, base));
        continue;
      }
      problems.push(...problemsOfGenerator(method));
      // Also of what cannot be read otherwise: two problems are found at once.
      for (const name of method.declarations.flatMap((declaration) => namesGiven(method, declaration))) {
        const other = declared.get(name);
        if (other) problems.push(`Job "${name}" is declared by ${places(other, method)}; names must be unique.`);
        declared.set(name, method);
      }
      for (const definition of this.definitions(method, problems)) {
        jobs.push({ definition, handler: this.handlers.create(method.wrapper, method.methodName) });
      }
    }
    return jobs;
  }

  private definitions(method: DecoratedMethod<CronDeclaration>, problems: string[]): JobDefinition[] {
    const place = placeOf(method);
    return method.declarations.flatMap(({ expression, options }) => {
      try {
        const job = resolveJob({
          expression,
          options,
          defaultName: place,
          declaredBy: place,
          defaults: this.options.jobDefaults,
        });
        problems.push(...problemsOfRetention(job, this.options.retentionMs));
        return [job];
      } catch (error) {
        if (!(error instanceof InvalidOptionsError)) throw error;
        problems.push(...error.problems);
        return [];
      }
    });
  }

  private runTimeHandlers(problems: string[]): Map<string, RunTimeHandler> {
    const handlers = new Map<string, RunTimeHandler>();
    for (const method of this.methods.find<unknown>(HANDLER_METADATA)) {
      const declaredBy = placeOf(method);
      problems.push(...problemsOfGenerator(method));
      for (const given of method.declarations) {
        const reading = handlerName(given);
        if ('problem' in reading) {
          problems.push(`${declaredBy}: @DistributedCronHandler: name: ${reading.problem}.`);
          continue;
        }
        const name = reading.value;
        if (handlers.has(name))
          problems.push(
            `Handler "${name}" is declared by both ${handlers.get(name)!.declaredBy} and ${declaredBy}; names must be unique.`,
          );
        else handlers.set(name, { handler: this.handlers.create(method.wrapper, method.methodName), declaredBy });
      }
    }
    return handlers;
  }
}

/** Those that leave an answer to a default that nobody chose. */
function implicitJobs(jobs: readonly RegisteredJob[]): JobDefinition[] {
  return jobs.map(({ definition }) => definition).filter(({ implicit }) => implicit.length > 0);
}

/** A name that is declared has not been given up. */
function problemsOfFormerNames(jobs: readonly RegisteredJob[]): string[] {
  const declared = new Map(jobs.map(({ definition }) => [definition.name, definition]));
  const heirs = new Map<string, string>();
  return jobs.flatMap(({ definition: { name, previously, declaredBy } }) =>
    previously.flatMap((former) => {
      const still = declared.get(former);
      const heir = heirs.get(former);
      heirs.set(former, name);
      if (heir !== undefined)
        return [`${declaredBy}: job "${name}": previously: "${former}" goes on as job "${heir}" already.`];
      return still
        ? [`${declaredBy}: job "${name}": previously: "${former}" is still declared, by ${still.declaredBy}.`]
        : [];
    }),
  );
}

/** The name of a job, or none where that is what cannot be read. */
function namesGiven(method: DecoratedMethod<unknown>, { options }: CronDeclaration): string[] {
  const reading = jobName(options?.name ?? placeOf(method));
  return 'value' in reading ? [reading.value] : [];
}

function inheritance(method: DecoratedMethod<unknown>, base: DecoratedMethod<unknown>): string {
  const [sub, parent] = [method, base].map(placeOf);
  return `${sub} inherits the schedule of ${parent}, and both are provided: decorate ${sub} with a schedule of its own, or provide only one of them.`;
}

/** Joined, not concatenated: what is kept of each job is one text, and not its parts besides. */
function placeOf({ className, methodName }: DecoratedMethod<unknown>): string {
  return [className, methodName].join('.');
}

function places(first: DecoratedMethod<unknown>, second: DecoratedMethod<unknown>): string {
  const [one, other] = [first, second].map(placeOf);
  if (first === second) return `${one} twice`;
  if (one !== other) return `both ${one} and ${other}`;
  return `both ${one} (in ${first.wrapper.host?.name}) and ${other} (in ${second.wrapper.host?.name})`;
}

/** A group has one limit: each claim would go by that of its own job, and the smaller one would be none. */
function problemsOfGroups(jobs: readonly JobDefinition[]): string[] {
  const first = new Map<string, JobDefinition>();
  return jobs.flatMap((job) => {
    const { concurrencyGroup: group, name, declaredBy } = job;
    if (!group) return [];
    const other = first.get(group.name);
    if (!other) first.set(group.name, job);
    const limit = other?.concurrencyGroup?.limit ?? group.limit;
    if (limit === group.limit) return [];
    return [
      `${declaredBy}: job "${name}": concurrencyGroup "${group.name}" has limit ${group.limit} here, and ${limit} for job "${other!.name}" (${other!.declaredBy}): give all its jobs the same.`,
    ];
  });
}
