import { Injectable, type Type } from '@nestjs/common';
import { ContextIdFactory, ExternalContextCreator } from '@nestjs/core';
import { Injector } from '@nestjs/core/injector/injector.js';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import type { ContextId } from '@nestjs/core';
import { CRON_ARGUMENTS_METADATA } from '../distributed-scheduler.tokens.js';
import type { CronRun } from '../domain/runs/cron-run.js';
import type { Page } from '../domain/effects/page.js';
import { GeneratorReturnedError } from '../errors/generator-returned.error.js';
import { RUN_PARAMETER, withArguments, type HandlerParameter } from './handler-parameters.js';
import { HandlerContexts } from './handler-contexts.js';

/** Runs a job's method for one attempt, of the run or of one of its pages. */
export type Handler = (run: CronRun, page?: Page) => Promise<unknown>;

/** What a guard or interceptor reads from `ExecutionContext.getType()`. */
export type CronContextType = 'cron';

const RUN = [RUN_PARAMETER];

const RUN_AS_PARAMETER = { exchangeKeyForValue: (_type: number, data: unknown, args: unknown[]) => args[typeof data === 'number' ? data : 0] };

/** Binds methods as Nest binds its own handlers: with their guards, pipes, interceptors and filters, in their scope. */
@Injectable()
export class HandlerFactory {
  private readonly injector = new Injector();

  constructor(
    private readonly nest: ExternalContextCreator,
    private readonly contexts: HandlerContexts,
  ) {}

  create(wrapper: InstanceWrapper, methodName: string, parameters: readonly HandlerParameter[] = RUN): Handler {
    if (wrapper.isDependencyTreeStatic() && !wrapper.isTransient) return this.boundWhenNeeded(wrapper.instance, methodName, parameters);
    return async (run, page) => {
      const contextId = ContextIdFactory.create();
      this.nest.registerRequestProvider(run, contextId);
      const instance = await this.resolve(wrapper, contextId);
      return this.bind(instance, methodName, parameters, contextId, wrapper.id)(run, page);
    };
  }

  /** What Nest wraps around a method takes kilobytes, and most jobs run once a day: between its runs it may be collected. */
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
    return this.injector.loadPerContext(wrapper.instance, host, collection as Map<Type, InstanceWrapper>, contextId, wrapper);
  }

  private bind(instance: object, methodName: string, parameters: readonly HandlerParameter[], contextId?: ContextId, inquirerId?: string): Handler {
    const method = (instance as Record<string, (...args: unknown[]) => unknown>)[methodName]!;
    const handler: Handler = withArguments(instance, methodName, parameters, () =>
      this.contexts.for(instance).create<Record<string, never>, CronContextType>(
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
      if (isGenerator(returned)) throw new GeneratorReturnedError(`${instance.constructor.name}.${methodName}`);
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
