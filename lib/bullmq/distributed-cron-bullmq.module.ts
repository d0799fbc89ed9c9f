import {
  Module,
  type DynamicModule,
  type InjectionToken,
  type ModuleMetadata,
  type OptionalFactoryDependency,
} from '@nestjs/common';
import { PAGE_QUEUE } from '../options/tokens.js';
import { BullMqPageQueue } from './bullmq-page-queue.js';
import type { BullMqOptions } from './bullmq-options.js';

/** Options that come from other providers. */
export interface BullMqAsyncOptions {
  readonly imports?: ModuleMetadata['imports'];
  readonly inject?: (InjectionToken | OptionalFactoryDependency)[];
  useFactory(...dependencies: any[]): BullMqOptions | Promise<BullMqOptions>;
}

/**
 * Gives the scheduler BullMQ for the pages of jobs that fan out. Import it once, beside `DistributedSchedulerModule`.
 */
@Module({})
export class DistributedCronBullMqModule {
  /** @param options without any: on BullMQ's PostgreSQL backend, in the scheduler's own database */
  static forRoot(options?: BullMqOptions): DynamicModule {
    return this.assemble({ useFactory: () => options ?? {} });
  }

  /** Like `forRoot()`, with options that come from other providers. */
  static forRootAsync(options: BullMqAsyncOptions): DynamicModule {
    return this.assemble(options);
  }

  private static assemble({ imports = [], inject = [], useFactory }: BullMqAsyncOptions): DynamicModule {
    const queue = {
      provide: PAGE_QUEUE,
      inject,
      useFactory: async (...dependencies: unknown[]) => new BullMqPageQueue(await useFactory(...dependencies)),
    };
    return { module: DistributedCronBullMqModule, global: true, imports, providers: [queue], exports: [PAGE_QUEUE] };
  }
}
