import { SchedulerError } from './scheduler.error.js';

/** A receipt inside another's effect would wait for a second connection while it holds the first, or for itself. */
export class NestedReceiptError extends SchedulerError {
  constructor(outer: string, call: string) {
    super(
      `ReceiptService.${call} was called inside the effect of once("${outer}"). Let it join that one's transaction with ` +
        '{ in: manager }, the manager of the effect around it, under another entity or effect; or call one after the other.',
    );
  }
}
