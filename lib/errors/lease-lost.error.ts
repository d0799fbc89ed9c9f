import { SchedulerError } from './scheduler.error.js';

/** Why a handler's signal was aborted, or its result refused. */
export type LeaseLoss =
  /** The lease could not be renewed in time, by this machine's monotonic clock. */
  | 'expired'
  /** The database says that the attempt is no longer ours. */
  | 'taken over'
  /** It was renewed no more, because the run has taken its job's `maxRunTime`. */
  | 'ran too long'
  /** With `fastFailover`: for a while nothing proved to the others that this process lives. */
  | 'cut off';

const WHY: Readonly<Record<LeaseLoss, string>> = {
  expired: 'it could not be renewed in time',
  'taken over': 'another attempt has taken over',
  'ran too long': 'its maxRunTime is over',
  'cut off': 'this instance was cut off from the database, and others may have seen that',
};

/** This process no longer owns the run: its signal is aborted, and what it still writes is refused. */
export class LeaseLostError extends SchedulerError {
  constructor(run: { readonly jobName: string; readonly fireTime: Date; readonly attempt: number }, readonly loss: LeaseLoss) {
    super(`The lease of ${run.jobName} of ${run.fireTime.toISOString()} (attempt ${run.attempt}) is lost: ${WHY[loss]}.`);
  }
}
