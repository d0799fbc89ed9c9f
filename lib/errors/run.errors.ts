import { type Duration, formatDuration, parseDuration } from '../options/duration.js';
import { InvalidOptionsError, SchedulerError } from './scheduler.error.js';

/**
 * Thrown by a handler: no further attempt would do better. The run is dead at once, with this reason, and waits for a
 * person.
 */
export class GiveUp extends SchedulerError {
  constructor(
    /** For that person. */
    readonly reason: string,
    options?: ErrorOptions,
  ) {
    super(reason, options);
  }
}

/** A handler returned a generator: a call makes one, and runs nothing of it. No further attempt would do better. */
export class GeneratorReturnedError extends GiveUp {
  /** @param place the method, for people: `Invoices.export` */
  constructor(place: string) {
    super(
      `${place} returned a generator, whose code has not run: iterate it inside the handler, and return when it has ended`,
    );
  }
}

/** Somebody cancelled the run: its handler is told to stop, and it ends as cancelled. */
export class CancelledError extends SchedulerError {
  constructor(
    run: { readonly jobName: string; readonly fireTime: Date },
    /** What `job_runs.reason` says in the end. */
    readonly reason: string,
  ) {
    super(`${run.jobName} of ${run.fireTime.toISOString()} was cancelled: ${reason}.`);
  }
}

/**
 * The handler has taken as long as its job allows: its signal is aborted, and the attempt fails with this when it ends.
 */
export class TimeoutError extends SchedulerError {
  constructor(
    run: { readonly jobName: string; readonly fireTime: Date; readonly attempt: number },
    /** The option whose time is over. */
    readonly limit: 'timeout' | 'maxRunTime',
    /** How long that is, in milliseconds. */
    readonly limitMs: number,
  ) {
    super(
      `${run.jobName} of ${run.fireTime.toISOString()} (attempt ${run.attempt}) has run for its ${limit} of ${formatDuration(limitMs)}.`,
    );
  }
}

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
  constructor(
    run: { readonly jobName: string; readonly fireTime: Date; readonly attempt: number },
    readonly loss: LeaseLoss,
  ) {
    super(
      `The lease of ${run.jobName} of ${run.fireTime.toISOString()} (attempt ${run.attempt}) is lost: ${WHY[loss]}.`,
    );
  }
}

/** The application stops and the time for running handlers is over. */
export class ShutdownError extends SchedulerError {
  constructor() {
    super(
      'The application is shutting down and the time for running handlers is over; stop now, another replica goes on.',
    );
  }
}

/**
 * Thrown by a handler: the attempt has failed, and the next one is to be made then, whatever the job's `backoff` says.
 * It counts as an attempt; after the last one the run is dead all the same.
 */
export class RetryLater extends SchedulerError {
  /**
   * @param at an instant, or how long from now; what has passed already is at once, and what is more than ten years
   * away is in ten years
   * @throws InvalidOptionsError when it is neither
   */
  constructor(
    readonly at: Date | Duration,
    message?: string,
    options?: ErrorOptions,
  ) {
    const readable = at instanceof Date ? !Number.isNaN(at.getTime()) : parseDuration(at) !== null;
    if (!readable)
      throw new InvalidOptionsError([`RetryLater: expected a Date or a duration such as "5m", got ${String(at)}.`]);
    super(
      message ?? `to be tried again ${at instanceof Date ? `at ${at.toISOString()}` : `in ${String(at)}`}`,
      options,
    );
  }
}

/** What was asked of a run can't be done in the state it is in. */
export class RunStateError extends SchedulerError {
  /** @param problem why not, and what to do instead: the end of a sentence */
  constructor(
    verb: string,
    run: { readonly jobName: string; readonly fireTime: Date },
    readonly status: string,
    problem: string,
  ) {
    super(`Cannot ${verb} ${run.jobName} of ${run.fireTime.toISOString()}, which is ${status}: ${problem}.`);
  }
}

/** What had come before: the end of the handler, or what the handler did to its run. */
export type AfterWhat = 'handler' | 'completion' | 'release';

/** Something of a run was asked for after its end: what it wrote then might be written after the run is done. */
export class AfterRunError extends SchedulerError {
  constructor(what: string, run: { readonly jobName: string; readonly fireTime: Date }, end: AfterWhat = 'handler') {
    super(`${what} was called after ${WORDS[end](`${run.jobName} of ${run.fireTime.toISOString()}`)}`);
  }
}

const WORDS: Record<AfterWhat, (occurrence: string) => string> = {
  handler: (occurrence) =>
    `the handler of ${occurrence} had ended. Await everything that the handler starts, so that it ends last.`,
  completion: (occurrence) => `${occurrence} had been completed. What belongs to the run comes before its completion.`,
  release: (occurrence) =>
    `the handler of ${occurrence} had given it up. What belongs to the attempt comes before its release.`,
};

/** A checkpoint can't be kept. The message says where in it, and why. */
export class InvalidCheckpointError extends SchedulerError {
  constructor(problem: string) {
    super(`The checkpoint can’t be kept: ${problem}.`);
  }
}

/** A run was to be completed while something of it was still being written: that would be refused, or lost. */
export class OpenWorkError extends SchedulerError {
  constructor(what: string, run: { readonly jobName: string; readonly fireTime: Date }) {
    super(
      `${what} would complete ${run.jobName} of ${run.fireTime.toISOString()} while a receipt, a checkpoint or a transaction of it ` +
        'is not finished. Await all of them first; what is to commit with the completion goes through the manager of run.transaction.',
    );
  }
}

/** A transaction on another database can't hold what the scheduler writes: the two would commit apart. */
export class OtherDatabaseError extends SchedulerError {
  constructor(what: string, schema: string, options?: ErrorOptions) {
    super(
      `${what}: the given data source is not on the scheduler’s database: the run is not in "${schema}".job_runs as it sees it. ` +
        'What commits together must be in one database.',
      options,
    );
  }
}

/** What a handler wanted to publish cannot be its run's pages. */
export class InvalidPagesError extends SchedulerError {
  constructor(run: { readonly jobName: string; readonly fireTime: Date }, problem: string) {
    super(`FanOutService.publish of ${run.jobName} of ${run.fireTime.toISOString()}: ${problem}.`);
  }
}
