import { Injectable } from '@nestjs/common';
import { ExternalContextCreator, ModulesContainer, type NestContainer } from '@nestjs/core';
import type { Module } from '@nestjs/core/injector/module.js';
import { UsageError } from '../errors/errors.js';
import { SCHEDULER_OPTIONS } from '../options/tokens.js';

/** Makes sure that the application has one scheduler: Nest makes a module of its own of every `forRoot()`. */
@Injectable()
export class SingleModule {
  private readonly container: NestContainer;

  constructor(contexts: ExternalContextCreator) {
    // Nest gives the container to its own creator alone.
    ({ container: this.container } = contexts as unknown as { container: NestContainer });
  }

  /**
   * Comes before a connection is opened, which nobody would close. @throws UsageError that names who imports
   * it
   */
  async require(): Promise<void> {
    const all = [...this.container.getModules().values()];
    const schedulers = all.filter((module) => module.providers.has(SCHEDULER_OPTIONS));
    if (schedulers.length < 2) return;
    const importers = new Map<unknown, string>();
    for (const module of all) {
      for (const imported of await this.importsOf(module)) {
        if (imported?.module === schedulers[0]!.metatype && !importers.has(imported))
          importers.set(imported, module.name);
      }
    }
    throw new UsageError(
      'invalid-module',
      `DistributedSchedulerModule.forRoot() is imported ${importers.size} times (by ${[...importers.values()].join(' and by ')}). ` +
        'Import it once, in the root module: its services are global.',
    );
  }

  /** What a module's own `imports` say: Nest links a global module to every other one, whoever asked for it. */
  private importsOf(module: Module): Promise<({ module?: unknown } | undefined)[]> {
    const declared = (Reflect.getMetadata('imports', module.metatype) as unknown[] | undefined) ?? [];
    const dynamic = this.container.getDynamicMetadataByToken(module.token, 'imports') ?? [];
    return Promise.all([...declared, ...dynamic].map(async (imported) => imported as { module?: unknown } | undefined));
  }
}

/** Nest counts from the root module, 1, downwards. */
const ABOVE_THE_ROOT = -1;

/**
 * Nest calls the hooks of a global module first when an application starts, and last when it closes. A scheduler needs
 * the opposite: no handler may run before what it uses has started, nor after it is gone.
 */
@Injectable()
export class HookOrder {
  constructor(modules: ModulesContainer) {
    for (const module of modules.values()) if (module.providers.has(HookOrder)) module.distance = ABOVE_THE_ROOT;
  }
}
