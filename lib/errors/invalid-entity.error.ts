import { SchedulerError } from './scheduler.error.js';

/** The name of a receipt's entity or effect can't be stored. */
export class InvalidEntityError extends SchedulerError {
  constructor(what: 'entity' | 'effect', given: unknown, mostBytes: number) {
    super(`ReceiptService.once: the ${what} must be a number or a well-formed text of 1 to ${mostBytes} bytes without NUL, got ${describe(given)}.`);
  }
}

function describe(given: unknown): string {
  if (typeof given !== 'string') return typeof given === 'object' && given !== null ? 'an object' : String(given);
  const shown = given.length > 40 ? `${given.slice(0, 40)}…` : given;
  return `${JSON.stringify(shown)} (${Buffer.byteLength(given)} bytes)`;
}
