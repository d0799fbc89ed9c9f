import { isAsyncFunction } from 'node:util/types';
import { Inject, Injectable, Optional } from '@nestjs/common';
import { UsageError } from '../errors/errors.js';

type Method = (...args: unknown[]) => Promise<unknown>;

/** The moment from which the tables are there, and what the code declares is in them. */
@Injectable()
export class Registration {
  private begin: (() => Promise<void> | null) | null = null;

  /** @param begin registers, once, whoever asks first; null: not yet */
  startsWith(begin: () => Promise<void> | null): void {
    this.begin = begin;
  }

  /**
   * Waits for it, and brings it about: the scheduler's own `onModuleInit` is the last of the application.
   * @param asked the method, for people
   * @throws UsageError when it is too early
   */
  async done(asked: string): Promise<void> {
    const registered = this.begin?.() ?? null;
    if (!registered)
      throw new UsageError(
        'too-early',
        `${asked} was called before the application's providers are there (in a constructor or a factory): call it in onModuleInit, or later.`,
      );
    await registered;
  }
}

const REGISTRATION = Symbol('nestjs-distributed-cron:registration');

/**
 * Lets the asynchronous methods of a provider wait for the registration: they may be called in anybody's
 * `onModuleInit`.
 */
export function AfterRegistration(): ClassDecorator {
  return ({ name, prototype }) => {
    Optional()(prototype as object, REGISTRATION);
    Inject(Registration)(prototype as object, REGISTRATION);
    const methods = prototype as Record<string, unknown>;
    for (const methodName of Object.getOwnPropertyNames(methods)) {
      const method = Object.getOwnPropertyDescriptor(methods, methodName)!.value as Method;
      if (!isAsyncFunction(method)) continue;
      Object.defineProperty(methods, methodName, {
        value: async function (this: Record<symbol, Registration | undefined>, ...args: unknown[]) {
          await this[REGISTRATION]?.done(`${name}.${methodName}`);
          return method.apply(this, args);
        },
      });
    }
  };
}
