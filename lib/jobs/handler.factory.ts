import { Inject, Injectable, type NestInterceptor, type Type } from '@nestjs/common';
import { type ContextId, ContextIdFactory, ExternalContextCreator, ModuleRef, type NestContainer } from '@nestjs/core';
import { ExternalExceptionFilterContext } from '@nestjs/core/exceptions/external-exception-filter-context.js';
import type { ExternalExceptionsHandler } from '@nestjs/core/exceptions/external-exceptions-handler.js';
import { GuardsConsumer } from '@nestjs/core/guards/guards-consumer.js';
import { GuardsContextCreator } from '@nestjs/core/guards/guards-context-creator.js';
import { Injector } from '@nestjs/core/injector/injector.js';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import { InterceptorsConsumer } from '@nestjs/core/interceptors/interceptors-consumer.js';
import { InterceptorsContextCreator } from '@nestjs/core/interceptors/interceptors-context-creator.js';
import { PipesConsumer } from '@nestjs/core/pipes/pipes-consumer.js';
import { PipesContextCreator } from '@nestjs/core/pipes/pipes-context-creator.js';
import 'reflect-metadata';
import { isObservable, lastValueFrom } from 'rxjs';
import { InvalidOptionsError } from '../errors/errors.js';
import { GiveUp } from '../errors/run.errors.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { CRON_ARGUMENTS_METADATA, SCHEDULER_OPTIONS } from '../options/tokens.js';

/** Where Nest keeps what `createParamDecorator` declares. */
const NEST_ROUTE_ARGUMENTS = '__routeArguments__';

/** What a handler gets: where in its parameters, and under which of Nest's keys. */
interface HandlerParameter {
  /**
   * Not one of Nest's own parameter types, so that pipes see a `custom` parameter, which `ValidationPipe` leaves alone.
   */
  readonly key: string;
  readonly index: number;
}

/** The `CronRun`. */
export const RUN_PARAMETER: HandlerParameter = { key: '99:0', index: 0 };

/** The `Page`, for handlers of pages. */
export const PAGE_PARAMETER: HandlerParameter = { key: '99:1', index: 1 };

/**
 * Nest applies guards, pipes and interceptors by the parameters it knows of: the run is the first, unless a custom
 * decorator took its place. It is told for as long as it binds the method, and no longer: for thousands of jobs it
 * would be megabytes.
 */
function withArguments<Result>(
  instance: object,
  methodName: string,
  parameters: readonly HandlerParameter[],
  work: () => Result,
): Result {
  const target = instance.constructor;
  const custom = Reflect.getMetadata(NEST_ROUTE_ARGUMENTS, target, methodName) as
    | Record<string, { index: number }>
    | undefined;
  const taken = new Set(Object.values(custom ?? {}).map(({ index }) => index));
  const own = parameters
    .filter(({ index }) => !taken.has(index))
    .map(({ key, index }) => [key, { index, data: index, pipes: [] }] as const);
  Reflect.defineMetadata(CRON_ARGUMENTS_METADATA, { ...custom, ...Object.fromEntries(own) }, target, methodName);
  try {
    return work();
  } finally {
    Reflect.deleteMetadata(CRON_ARGUMENTS_METADATA, target, methodName);
  }
}

/**
 * Nest's own way to wrap a handler, for jobs: guards, pipes, interceptors and filters bound on the method or its class
 * apply. Global ones do not: they are written for requests, and an authentication guard would refuse every run.
 */
@Injectable()
export class HandlerContexts {
  private readonly container: NestContainer;
  private readonly creators = new WeakMap<object, ExternalContextCreator>();

  constructor(contexts: ExternalContextCreator) {
    // Nest gives the container to its own creator alone.
    this.container = (contexts as unknown as { container: NestContainer }).container;
  }

  /**
   * The creator for handlers of this instance's class, and of no other: NestJS 11 tells classes apart by their name.
   */
  for(instance: object): ExternalContextCreator {
    const prototype = Object.getPrototypeOf(instance) as object;
    let creator = this.creators.get(prototype);
    if (!creator) {
      creator = creatorIn(this.container);
      this.creators.set(prototype, creator);
    }
    return creator;
  }
}

/** Without the application's configuration there is nothing global. */
function creatorIn(container: NestContainer): ExternalContextCreator {
  return new HandlerContextCreator(
    new GuardsContextCreator(container),
    new GuardsConsumer(),
    new InterceptorsContextCreator(container),
    new InterceptorsConsumer(),
    container.getModules(),
    new PipesContextCreator(container),
    new PipesConsumer(),
    new RethrowingFilters(container),
  );
}

/** Nest takes an observable that ends without a value for an error; a run is done when its handler's observable is. */
class HandlerContextCreator extends ExternalContextCreator {
  constructor(...parts: ConstructorParameters<typeof ExternalContextCreator>) {
    super(...parts);
    // Nest remembers what it read of each method, for ever; it is read again when the method is bound again.
    Object.assign(this, { handlerMetadataStorage: { get: () => undefined, set: () => {} } });
  }

  override async transformToResult(result: unknown): Promise<unknown> {
    return isObservable(result) ? lastValueFrom(result, { defaultValue: undefined }) : result;
  }
}

/** Nest logs what no filter handled before it throws it on; here the run's own log line says it. */
class RethrowingFilters extends ExternalExceptionFilterContext {
  override create(...args: Parameters<ExternalExceptionFilterContext['create']>): ExternalExceptionsHandler {
    const handler = super.create(...args);
    handler.next = (exception, host) => {
      const handled = handler.invokeCustomFilters(exception, host);
      if (handled) return handled;
      throw exception;
    };
    return handler;
  }
}

/** One part of an occurrence's work, as its handler sees it. */
export interface Page<Data = unknown> {
  /** Names it within its occurrence. */
  readonly id: string;
  /** What it was published with. */
  readonly data: Data;
}

/** Runs a job's method for one attempt, of the run or of one of its pages. */
export type Handler = (run: object, page?: Page) => Promise<unknown>;

/** What a guard or interceptor reads from `ExecutionContext.getType()`. */
export type CronContextType = 'cron';

const RUN = [RUN_PARAMETER];

const RUN_AS_PARAMETER = {
  exchangeKeyForValue: (_type: number, data: unknown, args: unknown[]) => args[typeof data === 'number' ? data : 0],
};

/** Binds methods as Nest binds its own handlers: with their guards, pipes, interceptors and filters, in their scope. */
@Injectable()
export class HandlerFactory {
  private readonly injector = new Injector();
  private readonly interceptors = new InterceptorsConsumer();
  private around: readonly NestInterceptor[] = [];

  constructor(
    private readonly nest: ExternalContextCreator,
    private readonly contexts: HandlerContexts,
    private readonly modules: ModuleRef,
    @Inject(SCHEDULER_OPTIONS) private readonly options: Pick<ResolvedSchedulerOptions, 'interceptors'>,
  ) {}

  /** Finds the interceptors of all handlers, once all providers are there. @throws InvalidOptionsError */
  async prepare(): Promise<void> {
    this.around = await Promise.all(
      this.options.interceptors.map((given) => (typeof given === 'function' ? this.interceptorOf(given) : given)),
    );
  }

  create(wrapper: InstanceWrapper, methodName: string, parameters: readonly HandlerParameter[] = RUN): Handler {
    const handler = this.handlerOf(wrapper, methodName, parameters);
    return async (run, page) => {
      if (this.around.length === 0) return handler(run, page);
      const result: unknown = await this.interceptors.intercept(
        [...this.around],
        [run, page],
        wrapper.instance,
        wrapper.instance[methodName],
        () => handler(run, page),
        'cron',
      );
      return isObservable(result) ? lastValueFrom(result, { defaultValue: undefined }) : result;
    };
  }

  private async interceptorOf(type: Type<NestInterceptor>): Promise<NestInterceptor> {
    const refuse = (problem: string): never => {
      throw new InvalidOptionsError([`DistributedSchedulerModule: interceptors: ${problem}`]);
    };
    try {
      return this.modules.get(type, { strict: false });
    } catch (error) {
      if ((error as Error).constructor.name !== 'UnknownElementException') return refuse((error as Error).message);
      return this.modules
        .create(type)
        .catch(() => refuse(`${type.name} injects something: add it to the providers of a module of yours`));
    }
  }

  private handlerOf(wrapper: InstanceWrapper, methodName: string, parameters: readonly HandlerParameter[]): Handler {
    if (wrapper.isDependencyTreeStatic() && !wrapper.isTransient)
      return this.boundWhenNeeded(wrapper.instance, methodName, parameters);
    return async (run, page) => {
      const contextId = ContextIdFactory.create();
      this.nest.registerRequestProvider(run, contextId);
      const instance = await this.resolve(wrapper, contextId);
      return this.bind(instance, methodName, parameters, contextId, wrapper.id)(run, page);
    };
  }

  /**
   * What Nest wraps around a method takes kilobytes, and most jobs run once a day: between its runs it may be
   * collected.
   */
  private boundWhenNeeded(instance: object, methodName: string, parameters: readonly HandlerParameter[]): Handler {
    let bound: WeakRef<Handler> | null = null;
    return (run, page) => {
      let handler = bound?.deref();
      if (!handler) {
        handler = this.bind(instance, methodName, parameters);
        bound = new WeakRef(handler);
      }
      return handler(run, page);
    };
  }

  /** A new instance for this run, as Nest makes one for each request; `REQUEST` is the run. */
  private resolve(wrapper: InstanceWrapper, contextId: ContextId): Promise<object> {
    const host = wrapper.host!;
    const collection = host.controllers.get(wrapper.token as Type) === wrapper ? host.controllers : host.providers;
    return this.injector.loadPerContext(
      wrapper.instance,
      host,
      collection as Map<Type, InstanceWrapper>,
      contextId,
      wrapper,
    );
  }

  private bind(
    instance: object,
    methodName: string,
    parameters: readonly HandlerParameter[],
    contextId?: ContextId,
    inquirerId?: string,
  ): Handler {
    const method = (instance as Record<string, (...args: unknown[]) => unknown>)[methodName]!;
    const handler: Handler = withArguments(instance, methodName, parameters, () =>
      this.contexts
        .for(instance)
        .create<Record<string, never>, CronContextType>(
          instance,
          method,
          methodName,
          CRON_ARGUMENTS_METADATA,
          RUN_AS_PARAMETER,
          contextId,
          inquirerId,
          { guards: true, interceptors: true, filters: true },
          'cron',
        ),
    );
    return async (run, page) => {
      const returned = await handler(run, page);
      if (isGenerator(returned))
        throw new GiveUp(
          `${instance.constructor.name}.${methodName} returned a generator, whose code has not run: iterate it inside the handler, and return when it has ended`,
        );
      return returned;
    };
  }
}

/** Also what a compiler makes of one; an iterator of a list or a map has no `throw`. */
function isGenerator(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const { next, throw: interrupt, return: end } = value as Partial<Generator>;
  const iterable = Symbol.iterator in value || Symbol.asyncIterator in value;
  return iterable && [next, interrupt, end].every((method) => typeof method === 'function');
}
