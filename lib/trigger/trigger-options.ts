import type { CanActivate, FactoryProvider, ModuleMetadata, Type } from '@nestjs/common';
import { InvalidOptionsError } from '../errors/errors.js';

/** Who may deliver. */
export interface TriggerSecrets {
  /**
   * What a delivery must bring as `Authorization: Bearer …`: at least 32 characters, without blanks. Of several each is
   * good, so that they can be changed one after the other.
   */
  readonly token?: string | readonly string[];
}

/** What the routes are made of, known when the module is. */
export interface TriggerRoutes {
  /** Where the endpoint is: `POST /<path>/<job>`, behind the application's global prefix. @default 'cron' */
  readonly path?: string;
  /** A guard of the application's, instead of a token, or besides one. */
  readonly guard?: Type<CanActivate>;
  /** For what `guard` needs. */
  readonly imports?: ModuleMetadata['imports'];
  /** For the controller's class: what exempts it from a global guard, a throttler, a page of documentation. */
  readonly decorators?: readonly ClassDecorator[];
}

/** Options of `DistributedCronTriggerModule.forRoot()`: a token, a guard, or both. */
export interface TriggerOptions extends TriggerRoutes, TriggerSecrets {}

/** Options of `DistributedCronTriggerModule.forRootAsync()`. */
export interface TriggerAsyncOptions extends TriggerRoutes {
  /** Its arguments are what `inject` names, in order. */
  readonly useFactory: (...args: any[]) => TriggerSecrets | Promise<TriggerSecrets>;
  readonly inject?: FactoryProvider['inject'];
}

const SHORTEST_TOKEN = 32;

const NAME = 'DistributedCronTriggerModule';

/**
 * Reads the tokens; no problem contains one.
 * @throws InvalidOptionsError, also when nobody would be asked who he is
 */
export function readTokens({ token }: TriggerSecrets, hasGuard: boolean): readonly string[] {
  const given: readonly unknown[] = token === undefined ? [] : Array.isArray(token) ? token : [token];
  const problems = given.flatMap((one, index) =>
    problemsOfToken(one, given.length === 1 ? 'token' : `token[${index}]`),
  );
  if (given.length === 0 && !hasGuard)
    problems.push('a token or a guard is needed: without one, everybody who reaches the endpoint could start jobs.');
  if (problems.length > 0) throw new InvalidOptionsError(problems.map((problem) => `${NAME}: ${problem}`));
  return given as string[];
}

function problemsOfToken(given: unknown, name: string): string[] {
  if (typeof given !== 'string')
    return [`${name}: expected a text, got ${given === null ? 'null' : `a ${typeof given}`}; is a variable not set?`];
  if (!/^[\x21-\x7e]*$/.test(given))
    return [`${name}: expected printable ASCII without blanks, which a header can hold.`];
  return given.length >= SHORTEST_TOKEN
    ? []
    : [`${name}: expected at least ${SHORTEST_TOKEN} characters, got ${given.length}; openssl rand -hex 32 makes one.`];
}

/** @throws InvalidOptionsError */
export function readPath(path: unknown = 'cron'): string {
  if (typeof path === 'string' && /^[\w.~-]+(\/[\w.~-]+)*$/.test(path)) return path;
  throw new InvalidOptionsError([
    `${NAME}: path: expected a path such as "cron" or "internal/cron", without parameters and outer slashes, got ${JSON.stringify(path)}.`,
  ]);
}
