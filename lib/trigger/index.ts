export { DistributedCronTriggerModule } from './trigger.module.js';
export type { TriggerAsyncOptions, TriggerOptions, TriggerRoutes, TriggerSecrets } from './trigger-options.js';
