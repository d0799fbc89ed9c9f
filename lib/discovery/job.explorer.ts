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
  readonly prototype: object;
  /** The class the declarations stand in: this one, or one it extends. */
  readonly declaredOn: object;
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
    const methods = this.methods();
    for (const method of methods) {
      const base = methods.find((other) => inherits(method, other));
      if (base) {
        problems.push(inheritance(method, base));
        continue;
      }
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
   * Two classes that share a decorated method by inheritance are two, and must give their jobs two names; a class and
   * one that extends it would do the same work twice.
   */
  private methods(): FoundMethod[] {
    const seen = new Set<object>();
    return [...this.discovery.getProviders(), ...this.discovery.getControllers()].flatMap((wrapper) => {
      const prototype = prototypeOf(wrapper);
      if (!prototype || seen.has(prototype)) return [];
      seen.add(prototype);
      return decoratedMethods(prototype).map((found) => ({ wrapper, className: prototype.constructor.name, prototype, ...found }));
    });
  }

  private definitions(method: FoundMethod, problems: string[]): JobDefinition[] {
    const place = placeOf(method);
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

/** Own and inherited. */
function decoratedMethods(prototype: object): Pick<FoundMethod, 'methodName' | 'declaredOn' | 'declarations'>[] {
  const classes = lineOf(prototype);
  const methodNames = new Set(classes.flatMap((one) => Object.getOwnPropertyNames(one)));
  return [...methodNames].flatMap((methodName) => {
    const declaredOn = classes.find((one) => Reflect.hasOwnMetadata(CRON_METADATA, one, methodName));
    if (!declaredOn) return [];
    const declarations = Reflect.getOwnMetadata(CRON_METADATA, declaredOn, methodName) as CronDeclaration[];
    return [{ methodName, declaredOn, declarations }];
  });
}

/** The prototypes of a class and of all it extends, nearest first. */
function lineOf(prototype: object): object[] {
  const line: object[] = [];
  for (let at: object | null = prototype; at && at !== Object.prototype; at = Object.getPrototypeOf(at) as object | null) line.push(at);
  return line;
}

function inherits(method: FoundMethod, other: FoundMethod): boolean {
  const same = method.methodName === other.methodName && method.declaredOn === other.declaredOn;
  return same && Object.prototype.isPrototypeOf.call(other.prototype, method.prototype);
}

function inheritance(method: FoundMethod, base: FoundMethod): string {
  const [sub, parent] = [method, base].map(placeOf);
  return `${sub} inherits the schedule of ${parent}, and both are provided: decorate ${sub} with a schedule of its own, or provide only one of them.`;
}

function placeOf({ className, methodName }: FoundMethod): string {
  return `${className}.${methodName}`;
}

function places(first: FoundMethod, second: FoundMethod): string {
  const [one, other] = [first, second].map(placeOf);
  if (first === second) return `${one} twice`;
  if (one !== other) return `both ${one} and ${other}`;
  return `both ${one} (in ${first.wrapper.host?.name}) and ${other} (in ${second.wrapper.host?.name})`;
}
