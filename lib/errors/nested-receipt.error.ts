import { SchedulerError } from './scheduler.error.js';

/** A transaction inside another's would wait for a second connection while it holds the first, or for itself. */
export class NestedReceiptError extends SchedulerError {
  /** @param outer the transaction that is open, and `call` the one inside it, as they are written in code */
  constructor(outer: string, call: string) {
    super(
      `${call} was called inside the transaction of ${outer}. Let a receipt join that transaction with { in: manager }, its manager, ` +
        'under another entity or effect; or call one after the other.',
    );
  }
}
