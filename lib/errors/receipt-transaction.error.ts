import { SchedulerError } from './scheduler.error.js';

/** A receipt cannot be written in the transaction, or on the data source, that it was given. */
export class ReceiptTransactionError extends SchedulerError {
  constructor(problem: string) {
    super(`The option "in" of a receipt ${problem}.`);
  }
}
