import { Module, type DynamicModule, type Provider } from '@nestjs/common';
import { TokenGuard, TRIGGER_TOKENS } from './token.guard.js';
import { triggerController } from './trigger.controller.js';
import { readPath, readTokens, type TriggerAsyncOptions, type TriggerOptions, type TriggerRoutes, type TriggerSecrets } from './trigger-options.js';

/**
 * An endpoint through which a clock outside delivers occurrences: `POST /<path>/<job>`. Import it beside
 * `DistributedSchedulerModule`.
 */
@Module({})
export class DistributedCronTriggerModule {
  /** A token that is missing or too short fails the start. */
  static forRoot(options: TriggerOptions): DynamicModule {
    return assemble(options, { provide: TRIGGER_TOKENS, useFactory: () => readTokens(options, Boolean(options.guard)) });
  }

  /** Like `forRoot()`, with tokens that come from other providers. */
  static forRootAsync({ useFactory, inject = [], ...routes }: TriggerAsyncOptions): DynamicModule {
    const read = async (...args: unknown[]): Promise<readonly string[]> => readTokens((await useFactory(...args)) as TriggerSecrets, Boolean(routes.guard));
    return assemble(routes, { provide: TRIGGER_TOKENS, inject, useFactory: read });
  }
}

function assemble({ path, guard, imports = [], decorators = [] }: TriggerRoutes, tokens: Provider): DynamicModule {
  return {
    module: DistributedCronTriggerModule,
    imports,
    providers: [tokens, TokenGuard],
    controllers: [triggerController(readPath(path), guard ? [TokenGuard, guard] : [TokenGuard], decorators)],
  };
}
