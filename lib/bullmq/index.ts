export { BullMqPageQueue } from './bullmq-page-queue.js';
export type { BullMqOptions } from './bullmq-options.js';
export { DistributedCronBullMqModule, type BullMqAsyncOptions } from './distributed-cron-bullmq.module.js';
