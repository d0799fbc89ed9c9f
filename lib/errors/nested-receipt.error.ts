import { SchedulerError } from './scheduler.error.js';

/** A receipt inside another's effect would wait for a second connection while it holds the first. */
export class NestedReceiptError extends SchedulerError {
  constructor(outer: string, inner: string) {
    super(
      `ReceiptService.once("${inner}") was called inside the effect of once("${outer}"). Do both writes in one effect with ` +
        'its manager, or call one after the other.',
    );
  }
}
