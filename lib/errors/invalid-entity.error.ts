import { SchedulerError } from './scheduler.error.js';

/** The name of a receipt's entity or effect can't be stored. */
export class InvalidEntityError extends SchedulerError {
  constructor(what: 'entity' | 'effect', given: string) {
    const shown = given.length > 40 ? `${given.slice(0, 40)}…` : given;
    super(`ReceiptService.once: the ${what} must be a text of 1 to 500 characters without NUL, got ${JSON.stringify(shown)} (${given.length}).`);
  }
}
