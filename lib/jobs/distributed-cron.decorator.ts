import 'reflect-metadata';
import { CRON_METADATA, HANDLER_METADATA, SCHEDULER_OPTIONS } from '../options/tokens.js';
import { UsageError } from '../errors/errors.js';
import type { DistributedCronOptions } from '../options/job-definition.js';
import { Inject, Optional, Injectable } from '@nestjs/common';
import { ModulesContainer, DiscoveryService } from '@nestjs/core';
import { OwnLogger } from '../observe/own-logger.js';
import { isGeneratorFunction } from 'node:util/types';
import { STATIC_CONTEXT } from '@nestjs/core/injector/constants.js';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';

/** One `@DistributedCron` on one method. */
export interface CronDeclaration {
  readonly expression: string;
  readonly options: DistributedCronOptions;
}

/**
 * Makes a method of a provider or controller a job: it runs once for each fire time of the expression, on whichever
 * replica claims it. It gets a `CronRun`. May stand several times on one method, each with a name of its own.
 *
 * The declaration belongs to the class and the method's name, so that it survives other decorators that wrap the
 * method;
 * a subclass inherits it, also when it overrides the method, and replaces it by decorating again.
 *
 * What a request-scoped `useFactory` returns has no class before a run and is not found; give Nest the class.
 *
 * Guards, pipes, interceptors and filters bound on the method or its class apply; global ones do not. An error that a
 * filter answers with a value counts as handled.
 *
 * @param expression five cron fields, or six with seconds first, an alias such as `@daily`, or an interval: `every 90s`
 */
export function DistributedCron(expression: string, options: DistributedCronOptions = {}): MethodDecorator {
  return declaring('DistributedCron', CRON_METADATA, { expression, options });
}

/**
 * Makes a method of a provider or controller the handler of jobs made at run time, see `JobRegistry.add`. It gets a
 * `CronRun`, with what the job was given as `run.data`. Otherwise it is as a method with `@DistributedCron`.
 *
 * @param name what `handler` of a job names; the same on every replica and across deploys
 */
export function DistributedCronHandler(name: string): MethodDecorator {
  return declaring('DistributedCronHandler', HANDLER_METADATA, name);
}

function invalidDecorator(decorator: string, className: string, member: string | symbol, problem: string): UsageError {
  return new UsageError(
    'invalid-decorator',
    `@${decorator} on ${className}.${String(member)}: it ${problem}; decorate an instance method of a provider or controller.`,
  );
}

/** Adds to what the method declares under a key. */
export function declaring(decorator: string, key: string, declaration: unknown): MethodDecorator {
  return (target, methodName, descriptor) => {
    if (typeof target === 'function') throw invalidDecorator(decorator, target.name, methodName, 'is static');
    if (typeof methodName === 'symbol')
      throw invalidDecorator(decorator, target.constructor.name, methodName, 'is named by a symbol');
    if (typeof descriptor?.value !== 'function') {
      throw invalidDecorator(decorator, target.constructor.name, methodName, 'is not a method');
    }
    const declared = declarationsOn(target, key) ?? new Map<string, unknown[]>();
    // Decorators run from the bottom up; the list reads from the top down.
    declared.set(methodName, [declaration, ...(declared.get(methodName) ?? [])]);
    Reflect.defineMetadata(key, declared, target);
    warnUnlessDiscovered(target);
  };
}

/**
 * What the methods of a class itself declare under a key. One map for the class: one for each method takes more than
 * its declaration.
 */
function declarationsOn(prototype: object, key: string): Map<string, unknown[]> | undefined {
  return Reflect.getOwnMetadata(key, prototype) as Map<string, unknown[]> | undefined;
}

/** Where Nest puts the application's modules on each instance of a class with decorated methods. */
const MODULES = Symbol('nestjs-distributed-cron:modules');

/** The classes that each application's scheduler has looked at, or of which the application was told. */
const looked = new WeakMap<ModulesContainer, WeakSet<object>>();

/** The scheduler of these modules has looked at the class. */
function markDiscovered(modules: ModulesContainer, prototype: object): void {
  lookedAt(modules).add(prototype);
}

/**
 * Warns when Nest makes an instance of the class in an application that schedules nothing of it. A decorator runs
 * before there is any application, so it asks Nest's injector for the modules, as `@Inject()` on a property does;
 * nothing is stored.
 */
function warnUnlessDiscovered(prototype: object): void {
  if (MODULES in prototype) return;
  Object.defineProperty(prototype, MODULES, {
    set(this: object, modules: ModulesContainer) {
      warn(Object.getPrototypeOf(this) as object, modules);
    },
  });
  // Optional: an application with two copies of @nestjs/core has other modules, and starts as before.
  Optional()(prototype, MODULES);
  Inject(ModulesContainer)(prototype, MODULES);
}

function warn(prototype: object, modules: ModulesContainer): void {
  const scheduled = [...modules.values()].some(({ providers }) => providers.has(SCHEDULER_OPTIONS));
  // While the application starts, the scheduler has looked at nothing yet.
  if (scheduled && !looked.has(modules)) return;
  const known = lookedAt(modules);
  if (known.has(prototype)) return;
  known.add(prototype);
  const { name } = prototype.constructor;
  new OwnLogger().warn(
    scheduled
      ? `${name} declares jobs, and was created after the scheduler had looked for them (by LazyModuleLoader, or by ModuleRef.create): none of them runs here. ` +
          'Let a module of the application import its module from the start, or make the jobs at run time with JobRegistry.add()'
      : `${name} declares jobs, and the application has no DistributedSchedulerModule: none of them runs. Import DistributedSchedulerModule.forRoot() in the root module`,
  );
}

function lookedAt(modules: ModulesContainer): WeakSet<object> {
  let known = looked.get(modules);
  if (!known) looked.set(modules, (known = new WeakSet()));
  return known;
}

/** A decorated method of a class that Nest provides. */
export interface DecoratedMethod<Declaration> {
  readonly wrapper: InstanceWrapper;
  readonly className: string;
  readonly methodName: string;
  readonly prototype: object;
  /** Of this class, or of one it extends: then the same list. */
  readonly declarations: readonly Declaration[];
}

/** Finds what decorators of this library declare on the classes of the application. */
@Injectable()
export class DecoratedMethods {
  constructor(
    private readonly discovery: DiscoveryService,
    private readonly modules: ModulesContainer,
  ) {}

  /** False while Nest is still making instances: what is found then could not be called. */
  areMade(key: string): boolean {
    return this.find(key).every(
      ({ wrapper }) =>
        wrapper.isTransient ||
        !wrapper.isDependencyTreeStatic() ||
        wrapper.getInstanceByContextId(STATIC_CONTEXT).isResolved,
    );
  }

  /**
   * A class is looked at once, however often it is provided: in two modules, under an alias, under a second token.
   * Two classes that share a decorated method by inheritance are two.
   * @param key the Reflect key of a list of declarations
   */
  find<Declaration>(key: string): DecoratedMethod<Declaration>[] {
    const seen = new Set<object>();
    return [...this.discovery.getProviders(), ...this.discovery.getControllers()].flatMap((wrapper) => {
      const prototype = prototypeOf(wrapper);
      if (!prototype || seen.has(prototype)) return [];
      seen.add(prototype);
      markDiscovered(this.modules, prototype);
      return decoratedMethods<Declaration>(prototype, key).map((found) => ({
        wrapper,
        className: prototype.constructor.name,
        prototype,
        ...found,
      }));
    });
  }
}

/** Of thousands of methods only a few can be one another's: those whose declarations stand in one place. */
export function bySharedDeclarations<Declaration>(
  methods: readonly DecoratedMethod<Declaration>[],
): Map<readonly Declaration[], DecoratedMethod<Declaration>[]> {
  const shared = new Map<readonly Declaration[], DecoratedMethod<Declaration>[]>();
  for (const method of methods) {
    const others = shared.get(method.declarations);
    if (others) others.push(method);
    else shared.set(method.declarations, [method]);
  }
  return shared;
}

/** Of two methods with the same declarations: true when the first has them by inheritance from the other's class. */
export function inherits(method: DecoratedMethod<unknown>, other: DecoratedMethod<unknown>): boolean {
  return Object.prototype.isPrototypeOf.call(other.prototype, method.prototype);
}

/** To call a generator runs nothing of it: its run would be done at once. */
export function problemsOfGenerator({ className, methodName, prototype }: DecoratedMethod<unknown>): string[] {
  if (!isGeneratorFunction((prototype as Record<string, unknown>)[methodName])) return [];
  return [
    `${className}.${methodName}: it is a generator (function*), which runs nothing when it is called: make it a plain or async method, and iterate inside it.`,
  ];
}

/**
 * A scoped provider has no instance before its first request, so its class is asked; a factory's product has only
 * itself.
 */
function prototypeOf(wrapper: InstanceWrapper): object | null {
  if (wrapper.isAlias) return null;
  if (!wrapper.isNotMetatype && typeof wrapper.metatype === 'function')
    return (wrapper.metatype.prototype as object | undefined) ?? null;
  const instance = wrapper.instance as unknown;
  return typeof instance === 'object' && instance !== null ? (Object.getPrototypeOf(instance) as object | null) : null;
}

/** Own and inherited. */
function decoratedMethods<Declaration>(
  prototype: object,
  key: string,
): Pick<DecoratedMethod<Declaration>, 'methodName' | 'declarations'>[] {
  const classes = lineOf(prototype);
  const methodNames = new Set(classes.flatMap((one) => Object.getOwnPropertyNames(one)));
  return [...methodNames].flatMap((methodName) => {
    const declaredOn = classes.find((one) => declarationsOn(one, key)?.has(methodName));
    if (!declaredOn) return [];
    const declarations = declarationsOn(declaredOn, key)!.get(methodName) as Declaration[];
    return [{ methodName, declarations }];
  });
}

/** The prototypes of a class and of all it extends, nearest first. */
function lineOf(prototype: object): object[] {
  const line: object[] = [];
  for (
    let at: object | null = prototype;
    at && at !== Object.prototype;
    at = Object.getPrototypeOf(at) as object | null
  )
    line.push(at);
  return line;
}
