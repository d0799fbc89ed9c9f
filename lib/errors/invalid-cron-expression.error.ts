import { SchedulerError } from './scheduler.error.js';

/**
 * An expression that cannot be read, or that never fires. The message names the field, the value and what was expected.
 */
export class InvalidCronExpressionError extends SchedulerError {
  constructor(
    /** As it was written. */
    readonly expression: string,
    /** What is wrong with it, as the end of a sentence. */
    readonly problem: string,
    options?: ErrorOptions,
  ) {
    super(`Cron "${expression}": ${problem}.`, options);
  }
}
