import { SchedulerError } from './scheduler.error.js';

/** Something that belongs to a run was asked for where no run is. */
export class OutsideRunError extends SchedulerError {
  constructor(what: string) {
    super(
      `${what} was called outside a run. Call it from a @DistributedCron handler, or from what the handler awaits; ` +
        'a timer or listener that was set up before the run began does not belong to it.',
    );
  }
}
