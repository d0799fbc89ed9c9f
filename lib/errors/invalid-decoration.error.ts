import { SchedulerError } from './scheduler.error.js';

/** `@DistributedCron` stands where it can't work. */
export class InvalidDecorationError extends SchedulerError {
  constructor(className: string, member: string | symbol, problem: string) {
    super(`@DistributedCron on ${className}.${String(member)}: it ${problem}; decorate an instance method of a provider or controller.`);
  }
}
