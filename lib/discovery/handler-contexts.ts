import { Injectable } from '@nestjs/common';
import { ExternalContextCreator, type NestContainer } from '@nestjs/core';
import { ExternalExceptionFilterContext } from '@nestjs/core/exceptions/external-exception-filter-context.js';
import type { ExternalExceptionsHandler } from '@nestjs/core/exceptions/external-exceptions-handler.js';
import { GuardsConsumer } from '@nestjs/core/guards/guards-consumer.js';
import { GuardsContextCreator } from '@nestjs/core/guards/guards-context-creator.js';
import { InterceptorsConsumer } from '@nestjs/core/interceptors/interceptors-consumer.js';
import { InterceptorsContextCreator } from '@nestjs/core/interceptors/interceptors-context-creator.js';
import { PipesConsumer } from '@nestjs/core/pipes/pipes-consumer.js';
import { PipesContextCreator } from '@nestjs/core/pipes/pipes-context-creator.js';
import { isObservable, lastValueFrom } from 'rxjs';

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

  /** The creator for handlers of this instance's class, and of no other: NestJS 11 tells classes apart by their name. */
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
