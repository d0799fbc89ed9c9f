import { Injectable } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';

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
