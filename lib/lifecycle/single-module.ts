import { Injectable } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import type { Module } from '@nestjs/core/injector/module.js';
import { SCHEDULER_OPTIONS } from '../distributed-scheduler.tokens.js';
import { RepeatedModuleError } from '../errors/repeated-module.error.js';

/** Makes sure that the application has one scheduler: Nest makes a module of its own of every `forRoot()`. */
@Injectable()
export class SingleModule {
  constructor(private readonly modules: ModulesContainer) {}

  /** @throws RepeatedModuleError that names who imports it */
  require(): void {
    const all = [...this.modules.values()];
    const schedulers = all.filter((module) => module.providers.has(SCHEDULER_OPTIONS));
    if (schedulers.length < 2) return;
    const importers = schedulers.flatMap((scheduler) => all.filter((module) => module.imports.has(scheduler) && !isGlobalLink(module, scheduler)));
    throw new RepeatedModuleError([...new Set(importers.map((module) => module.name))]);
  }
}

/** Nest links a global module to every other one; only the module's own `imports` say who asked for it. */
function isGlobalLink(module: Module, scheduler: Module): boolean {
  const declared = (Reflect.getMetadata('imports', module.metatype) as unknown[] | undefined) ?? [];
  return !declared.some((imported) => (imported as { module?: unknown } | undefined)?.module === scheduler.metatype);
}
