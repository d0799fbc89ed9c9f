import { Injectable } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import type { Call } from './messages.js';
import { Parent } from './parent.js';

/** Calls what the test asks for, on a service of the application or of the library, by the name of its class. */
@Injectable()
export class Calls {
  constructor(
    private readonly modules: ModulesContainer,
    private readonly parent: Parent,
  ) {
    process.on('message', (message: { call?: Call }) => void (message.call && this.answer(message.call)));
  }

  private async answer({ id, service, method, args }: Call): Promise<void> {
    try {
      const value = await (this.find(service)[method] as (...args: unknown[]) => unknown)(...args);
      await this.parent.tell({ kind: 'answer', id, value, error: null });
    } catch (error) {
      await this.parent.tell({ kind: 'answer', id, value: undefined, error: String(error) });
    }
  }

  private find(service: string): Record<string, unknown> {
    const found = [...this.modules.values()]
      .flatMap(({ providers }) => [...providers.values()])
      .find(({ name, instance }) => name === service && instance);
    if (!found) throw new Error(`There is no service ${service}.`);
    const instance = found.instance as Record<string, unknown>;
    return new Proxy(instance, {
      get: (target, name: string) => (target[name] as (...args: unknown[]) => unknown).bind(target),
    });
  }
}
