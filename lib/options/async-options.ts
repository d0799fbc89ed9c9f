import type { Provider } from '@nestjs/common';
import { SCHEDULER_OPTIONS_INPUT } from './tokens.js';
import { InvalidOptionsError } from '../errors/errors.js';
import type { DistributedSchedulerAsyncOptions, DistributedSchedulerOptionsFactory } from './scheduler-options.js';

/** @throws InvalidOptionsError unless there is exactly one way to the options */
export function asyncOptionsProviders({
  useFactory,
  useClass,
  useExisting,
  inject,
}: DistributedSchedulerAsyncOptions): Provider[] {
  const ways = Object.entries({ useFactory, useClass, useExisting }).filter(([, way]) => way !== undefined);
  if (ways.length !== 1) {
    const given = ways.length === 0 ? 'none' : ways.map(([name]) => name).join(' and ');
    throw new InvalidOptionsError([
      `forRootAsync: expected one of useFactory, useClass and useExisting, got ${given}.`,
    ]);
  }
  if (useFactory) return [{ provide: SCHEDULER_OPTIONS_INPUT, inject: inject ?? [], useFactory }];
  const token = useExisting ?? useClass!;
  const options: Provider = {
    provide: SCHEDULER_OPTIONS_INPUT,
    inject: [token],
    useFactory: (factory: DistributedSchedulerOptionsFactory) => factory.createDistributedSchedulerOptions(),
  };
  return useClass ? [{ provide: useClass, useClass }, options] : [options];
}
