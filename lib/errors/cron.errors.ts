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

/** A time zone that is not an IANA region name. The message suggests the right one where it is known. */
export class InvalidTimeZoneError extends SchedulerError {
  constructor(
    /** As it was written. */
    readonly timeZone: string,
    /** What is wrong with it, as the rest of a sentence with its stop. */
    readonly problem: string,
    options?: ErrorOptions,
  ) {
    super(`Time zone "${timeZone}" ${problem}`, options);
  }
}

/** What a schedule is to leave out cannot be read, or is everything. */
export class InvalidCalendarError extends SchedulerError {
  constructor(
    /** What is wrong, as a sentence without its end. */
    readonly problem: string,
  ) {
    super(`${problem}.`);
  }
}
