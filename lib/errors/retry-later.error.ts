import { parseDuration, type Duration } from '../domain/duration.js';
import { InvalidOptionsError } from './invalid-options.error.js';
import { SchedulerError } from './scheduler.error.js';

/**
 * Thrown by a handler: the attempt has failed, and the next one is to be made then, whatever the job's `backoff` says. It
 * counts as an attempt; after the last one the run is dead all the same.
 */
export class RetryLater extends SchedulerError {
  /**
   * @param at an instant, or how long from now; what has passed already is at once, and what is more than ten years away is in ten years
   * @throws InvalidOptionsError when it is neither
   */
  constructor(
    readonly at: Date | Duration,
    message?: string,
    options?: ErrorOptions,
  ) {
    const readable = at instanceof Date ? !Number.isNaN(at.getTime()) : parseDuration(at) !== null;
    if (!readable) throw new InvalidOptionsError([`RetryLater: expected a Date or a duration such as "5m", got ${String(at)}.`]);
    super(message ?? `to be tried again ${at instanceof Date ? `at ${at.toISOString()}` : `in ${String(at)}`}`, options);
  }
}
