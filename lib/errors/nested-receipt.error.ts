import { SchedulerError } from './scheduler.error.js';

/** A transaction inside another's would wait for a second connection while it holds the first. */
export class NestedReceiptError extends SchedulerError {
  /** @param outer the transaction that is open, and `inner` the call inside it, as they are written in code */
  constructor(outer: string, inner: string) {
    super(
      `${inner} was called inside the transaction of ${outer}. Do both writes in one, with its manager, or call one after the other.`,
    );
  }
}
