import { SchedulerError } from './scheduler.error.js';

/** A decorator of this library stands where it can't work. */
export class InvalidDecorationError extends SchedulerError {
  constructor(decorator: string, className: string, member: string | symbol, problem: string) {
    super(`@${decorator} on ${className}.${String(member)}: it ${problem}; decorate an instance method of a provider or controller.`);
  }
}
