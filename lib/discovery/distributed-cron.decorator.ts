import 'reflect-metadata';
import { CRON_ARGUMENTS_METADATA, CRON_METADATA, HANDLER_METADATA } from '../distributed-scheduler.tokens.js';
import { InvalidDecorationError } from '../errors/invalid-decoration.error.js';
import type { DistributedCronOptions } from '../options/job-options.js';

/** One `@DistributedCron` on one method. */
export interface CronDeclaration {
  readonly expression: string;
  readonly options: DistributedCronOptions;
}

/** Where Nest keeps what `createParamDecorator` declares. */
const NEST_ROUTE_ARGUMENTS = '__routeArguments__';

/** What a handler gets: where in its parameters, and under which of Nest's keys. */
export interface HandlerParameter {
  /** Not one of Nest's own parameter types, so that pipes see a `custom` parameter, which `ValidationPipe` leaves alone. */
  readonly key: string;
  readonly index: number;
}

/** The `CronRun`. */
export const RUN_PARAMETER: HandlerParameter = { key: '99:0', index: 0 };

/** The `Page`, for handlers of pages. */
export const PAGE_PARAMETER: HandlerParameter = { key: '99:1', index: 1 };

/**
 * Makes a method of a provider or controller a job: it runs once for each fire time of the expression, on whichever
 * replica claims it. It gets a `CronRun`. May stand several times on one method, each with a name of its own.
 *
 * The declaration belongs to the class and the method's name, so that it survives other decorators that wrap the method;
 * a subclass inherits it, also when it overrides the method, and replaces it by decorating again.
 *
 * What a request-scoped `useFactory` returns has no class before a run and is not found; give Nest the class.
 *
 * Guards, pipes, interceptors and filters bound on the method or its class apply; global ones do not. An error that a
 * filter answers with a value counts as handled.
 *
 * @param expression five cron fields, or six with seconds first, or an alias such as `@daily`
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

/** Adds to what the method declares under a key. */
export function declaring(decorator: string, key: string, declaration: unknown, parameters: readonly HandlerParameter[] = [RUN_PARAMETER]): MethodDecorator {
  return (target, methodName, descriptor) => {
    if (typeof target === 'function') throw new InvalidDecorationError(decorator, target.name, methodName, 'is static');
    if (typeof methodName === 'symbol') throw new InvalidDecorationError(decorator, target.constructor.name, methodName, 'is named by a symbol');
    if (typeof descriptor?.value !== 'function') {
      throw new InvalidDecorationError(decorator, target.constructor.name, methodName, 'is not a method');
    }
    const own = (Reflect.getOwnMetadata(key, target, methodName) as unknown[] | undefined) ?? [];
    // Decorators run from the bottom up; the list reads from the top down.
    Reflect.defineMetadata(key, [declaration, ...own], target, methodName);
    declareArguments(target, methodName, parameters);
  };
}

/** Nest applies guards, pipes and interceptors by the parameters it knows of: the run is the first, unless a custom decorator took its place. */
function declareArguments(target: object, methodName: string | symbol, parameters: readonly HandlerParameter[]): void {
  const custom = Reflect.getMetadata(NEST_ROUTE_ARGUMENTS, target.constructor, methodName) as Record<string, { index: number }> | undefined;
  const taken = new Set(Object.values(custom ?? {}).map(({ index }) => index));
  const own = parameters.filter(({ index }) => !taken.has(index)).map(({ key, index }) => [key, { index, data: index, pipes: [] }] as const);
  Reflect.defineMetadata(CRON_ARGUMENTS_METADATA, { ...custom, ...Object.fromEntries(own) }, target.constructor, methodName);
}
