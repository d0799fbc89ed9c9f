import { SchedulerError } from './scheduler.error.js';

/** A table has the name of a partition that is needed, and is none: somebody has detached it, and left it there. */
export class DetachedPartitionError extends SchedulerError {
  /**
   * @param name qualified, as its table
   * @param bounds of the month, as SQL has them in quotes
   */
  constructor(name: string, table: string, { from, until }: { readonly from: string; readonly until: string }) {
    super(
      `Table ${name} is there and is no partition of ${table}, so that what is due from ${from} to ${until} has no place. ` +
        `Give it another name (alter table ${name} rename to …), and the scheduler makes a new one; ` +
        `or attach it again: alter table ${table} attach partition ${name} for values from ('${from}') to ('${until}').`,
    );
  }
}
