export { CronExpression } from './cron-expressions.js';
export { Cron, Interval, Timeout, type CronOptions } from './decorators.js';
export { ScheduleModule, type ScheduleModuleAsyncOptions, type ScheduleModuleOptions } from './schedule.module.js';
export { SchedulerRegistry, type RegisteredCronJob } from './scheduler-registry.js';
