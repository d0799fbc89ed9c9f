import type { DeliveryProblem } from '../operations/delivery.js';
import { SchedulerError } from './scheduler.error.js';

/** What was to be changed was changed by others, each time between reading and writing. Nothing was done. */
export class ChangedMeanwhileError extends SchedulerError {
  /** @param what in words, with its name */
  constructor(what: string) {
    super(`${what} was changed by others each time it was to be changed: nothing was done. Try again.`);
  }
}

/** What an operator asked for would have to wait for another transaction. Nothing was changed. */
export class OperationBusyError extends SchedulerError {
  constructor(
    /** `cancel`, `pause`, … */
    readonly asked: string,
    /** Of what: `job "export"`. */
    readonly what: string,
  ) {
    super(
      `Cannot ${asked} ${what} now: another transaction has held its rows for seconds. Nothing was changed: try again, or look for that transaction in pg_stat_activity.`,
    );
  }
}

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

/** A backfill that nobody asked for. */
export class UnknownBackfillError extends SchedulerError {
  constructor(readonly id: string) {
    super(
      `There is no backfill ${JSON.stringify(id)}. SchedulerService.backfills() lists those there are, with their ids.`,
    );
  }
}

/**
 * An occurrence was delivered that its job's schedule does not have, or whose time has not come. Nothing was written.
 */
export class DeliveryRefusedError extends SchedulerError {
  constructor(
    readonly jobName: string,
    readonly problem: DeliveryProblem,
    /** In words, with the nearest fire times where that helps. */
    why: string,
  ) {
    super(`Job "${jobName}": the delivery is refused: ${why}.`);
  }
}

/** An operator asked for something that a job's state does not allow now. */
export class RunRefusedError extends SchedulerError {
  constructor(
    readonly jobName: string,
    /** `run now`, `cancel`, … */
    readonly asked: string,
    /** Why, and what to do. */
    readonly reason: string,
  ) {
    super(`Job "${jobName}": ${asked} is refused: ${reason}.`);
  }
}

/** An occurrence was named that has no row. */
export class UnknownRunError extends SchedulerError {
  constructor(jobName: string, fireTime: Date) {
    super(
      `There is no run of "${jobName}" at ${fireTime.toISOString()}: a run is named by its job and its exact fire time, see job_runs.`,
    );
  }
}
