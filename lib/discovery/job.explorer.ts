import { Inject, Injectable } from '@nestjs/common';
import { DiscoveryService } from '@nestjs/core';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import { CRON_METADATA, SCHEDULER_OPTIONS } from '../distributed-scheduler.tokens.js';
import type { JobDefinition } from '../domain/job-definition.js';
import { InvalidJobsError } from '../errors/invalid-jobs.error.js';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import { resolveJob } from '../options/resolve-job.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import type { CronDeclaration } from './distributed-cron.decorator.js';
import { HandlerFactory } from './handler.factory.js';
import type { RegisteredJob } from './job.registry.js';

/** A decorated method of a class that Nest provides. */
interface FoundMethod {
  readonly wrapper: InstanceWrapper;
  readonly className: string;
  readonly methodName: string;
  readonly declarations: readonly CronDeclaration[];
}

/** Gathers what `@DistributedCron` declares, at module init, and finds everything wrong with it at once. */
@Injectable()
export class JobExplorer {
  constructor(
    private readonly discovery: DiscoveryService,
    private readonly handlers: HandlerFactory,
    @Inject(SCHEDULER_OPTIONS) private readonly options: ResolvedSchedulerOptions,
  ) {}

  /** @throws InvalidJobsError that names every class, method and job with a problem */
  explore(): RegisteredJob[] {
    const problems: string[] = [];
    const declared = new Map<string, FoundMethod>();
    const jobs: RegisteredJob[] = [];
    for (const method of this.methods()) {
      for (const definition of this.definitions(method, problems)) {
        const other = declared.get(definition.name);
        if (other) problems.push(`Job "${definition.name}" is declared by ${places(other, method)}; names must be unique.`);
        declared.set(definition.name, method);
        jobs.push({ definition, handler: this.handlers.create(method.wrapper, method.methodName) });
      }
    }
    if (problems.length > 0) throw new InvalidJobsError(problems);
    return jobs;
  }

  /**
   * A class is looked at once, however often it is provided: in two modules, under an alias, under a second token.
   * Two classes that share a decorated method by inheritance are two, and must give their jobs two names.
   */
  private methods(): FoundMethod[] {
    const seen = new Set<object>();
    return [...this.discovery.getProviders(), ...this.discovery.getControllers()].flatMap((wrapper) => {
      const prototype = prototypeOf(wrapper);
      if (!prototype || seen.has(prototype)) return [];
      seen.add(prototype);
      return decoratedMethods(prototype).map((found) => ({ wrapper, className: prototype.constructor.name, ...found }));
    });
  }

  private definitions(method: FoundMethod, problems: string[]): JobDefinition[] {
    const place = `${method.className}.${method.methodName}`;
    return method.declarations.flatMap(({ expression, options }) => {
      try {
        return [resolveJob({ expression, options, defaultName: place, declaredBy: place, defaults: this.options.jobDefaults })];
      } catch (error) {
        if (!(error instanceof InvalidOptionsError)) throw error;
        problems.push(...error.problems);
        return [];
      }
    });
  }
}

/** A scoped provider has no instance before its first request, so its class is asked; a factory's product has only itself. */
function prototypeOf(wrapper: InstanceWrapper): object | null {
  if (wrapper.isAlias) return null;
  if (!wrapper.isNotMetatype && typeof wrapper.metatype === 'function') return (wrapper.metatype.prototype as object | undefined) ?? null;
  const instance = wrapper.instance as unknown;
  return typeof instance === 'object' && instance !== null ? (Object.getPrototypeOf(instance) as object | null) : null;
}

function decoratedMethods(prototype: object): { methodName: string; declarations: CronDeclaration[] }[] {
  return [...methodNames(prototype)].flatMap((methodName) => {
    const declarations = Reflect.getMetadata(CRON_METADATA, prototype, methodName) as CronDeclaration[] | undefined;
    return declarations ? [{ methodName, declarations }] : [];
  });
}

/** Own and inherited. */
function methodNames(prototype: object): Set<string> {
  const names = new Set<string>();
  for (let at: object | null = prototype; at && at !== Object.prototype; at = Object.getPrototypeOf(at) as object | null) {
    for (const name of Object.getOwnPropertyNames(at)) names.add(name);
  }
  return names;
}

function places(first: FoundMethod, second: FoundMethod): string {
  const [one, other] = [first, second].map(({ className, methodName }) => `${className}.${methodName}`);
  if (first === second) return `${one} twice`;
  if (one !== other) return `both ${one} and ${other}`;
  return `both ${one} (in ${first.wrapper.host?.name}) and ${other} (in ${second.wrapper.host?.name})`;
}
