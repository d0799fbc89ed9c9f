import { isGeneratorFunction } from 'node:util/types';
import { Injectable } from '@nestjs/common';
import { DiscoveryService, ModulesContainer } from '@nestjs/core';
import { STATIC_CONTEXT } from '@nestjs/core/injector/constants.js';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import { declarationsOn } from './distributed-cron.decorator.js';
import { markDiscovered } from './undiscovered-jobs.js';

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
