import 'reflect-metadata';
import { CRON_METADATA, HANDLER_METADATA } from '../options/tokens.js';
import { UsageError } from '../errors/errors.js';
import type { DistributedCronOptions } from '../options/job-definition.js';
import { warnUnlessDiscovered } from './undiscovered-jobs.js';

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
export function declarationsOn(prototype: object, key: string): Map<string, unknown[]> | undefined {
  return Reflect.getOwnMetadata(key, prototype) as Map<string, unknown[]> | undefined;
}
