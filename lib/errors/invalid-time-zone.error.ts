import { SchedulerError } from './scheduler.error.js';

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
