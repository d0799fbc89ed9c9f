import { SchedulerError } from './scheduler.error.js';

/** A backfill that cannot be done as it was asked for. Nothing was written. */
export class InvalidBackfillError extends SchedulerError {
  constructor(
    readonly jobName: string,
    /** Each says what is wrong and what to do. */
    readonly problems: readonly string[],
  ) {
    super(problems.map((problem) => `Backfill of job "${jobName}": ${problem}`).join('\n'));
  }
}
