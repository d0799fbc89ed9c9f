import { Inject, Optional } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { SCHEDULER_OPTIONS } from '../options/tokens.js';
import { OwnLogger } from '../observe/own-logger.js';

/** Where Nest puts the application's modules on each instance of a class with decorated methods. */
const MODULES = Symbol('nestjs-distributed-cron:modules');

/** The classes that each application's scheduler has looked at, or of which the application was told. */
const looked = new WeakMap<ModulesContainer, WeakSet<object>>();

/** The scheduler of these modules has looked at the class. */
export function markDiscovered(modules: ModulesContainer, prototype: object): void {
  lookedAt(modules).add(prototype);
}

/**
 * Warns when Nest makes an instance of the class in an application that schedules nothing of it. A decorator runs
 * before there is any application, so it asks Nest's injector for the modules, as `@Inject()` on a property does;
 * nothing is stored.
 */
export function warnUnlessDiscovered(prototype: object): void {
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
