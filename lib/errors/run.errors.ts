import { occurrence, type Occurrence, SchedulerError, UsageError } from './errors.js';

type Attempt = Occurrence & { readonly attempt: number };

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
    super('give-up', reason, options);
  }
}

/**
 * Thrown by the call of `ReceiptService.onceExternal`: the effect surely did not happen, for example because the
 * provider refused it. It is not in doubt then, and the next attempt makes the call. Anything else that is thrown
 * leaves it open.
 */
export class EffectNotDone extends SchedulerError {
  constructor(message: string, options?: ErrorOptions) {
    super('effect-not-done', message, options);
  }
}

/** Somebody cancelled the run: its handler is told to stop, and it ends as cancelled. */
export class CancelledError extends SchedulerError {
  constructor(
    run: Occurrence,
    /** What `job_runs.reason` says in the end. */
    readonly reason: string,
  ) {
    super('cancelled', `${occurrence(run)} was cancelled: ${reason}.`);
  }
}

/** The application stops and the time for running handlers is over. */
export class ShutdownError extends SchedulerError {
  constructor() {
    super(
      'shutdown',
      'The application is shutting down and the time for running handlers is over; stop now, another replica goes on.',
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

const WHY_LOST: Readonly<Record<LeaseLoss, string>> = {
  expired: 'it could not be renewed in time',
  'taken over': 'another attempt has taken over',
  'ran too long': 'its maxRunTime is over',
  'cut off': 'this instance was cut off from the database, and others may have seen that',
};

/** This process no longer owns the run: its signal is aborted, and what it still writes is refused. */
export class LeaseLostError extends SchedulerError {
  constructor(
    run: Attempt,
    readonly loss: LeaseLoss,
  ) {
    super('lease-lost', `The lease of ${occurrence(run)} (attempt ${run.attempt}) is lost: ${WHY_LOST[loss]}.`);
  }
}

/** An effect that failed, and for what. */
export interface FailedEffect<Item = unknown> {
  /** As it was given. */
  readonly item: Item;
  readonly entity: string;
  readonly error: unknown;
}

const SHOWN = 3;

/** Some effects of many failed; the others are done, and the next attempt does only those that failed. */
export class EffectsFailedError extends SchedulerError {
  constructor(
    readonly failed: readonly FailedEffect[],
    readonly applied: number,
    readonly skipped: number,
    /** True when too many had failed, so that the rest was not tried. */
    readonly stopped: boolean,
  ) {
    const shown = failed
      .slice(0, SHOWN)
      .map(({ entity, error }) => `"${entity}": ${error instanceof Error ? error.message : String(error)}`);
    const more = failed.length > SHOWN ? `; and ${failed.length - SHOWN} more` : '';
    super(
      'effects-failed',
      `${failed.length} of ${failed.length + applied + skipped} effects failed: ${shown.join('; ')}${more}. ` +
        (stopped ? 'They were too many: the rest was not tried.' : 'The others are done and will not be repeated.'),
      { cause: failed[0]?.error },
    );
  }
}

/** What had come before: the end of the handler, or what the handler did to its run. */
export type AfterWhat = 'handler' | 'completion' | 'release';

const AFTER: Record<AfterWhat, (run: string) => string> = {
  handler: (run) => `the handler of ${run} had ended. Await everything that the handler starts, so that it ends last.`,
  completion: (run) => `${run} had been completed. What belongs to the run comes before its completion.`,
  release: (run) => `the handler of ${run} had given it up. What belongs to the attempt comes before its release.`,
};

/** Something of a run was asked for after its end: what it wrote then might be written after the run is done. */
export function afterRun(what: string, run: Occurrence, end: AfterWhat = 'handler'): UsageError {
  return new UsageError('after-run', `${what} was called after ${AFTER[end](occurrence(run))}`);
}

export function outsideRun(what: string): UsageError {
  return new UsageError(
    'outside-run',
    `${what} was called outside a run. Call it from a @DistributedCron handler, or from what the handler awaits; ` +
      'a timer or listener that was set up before the run began does not belong to it.',
  );
}

/** @param outer the transaction that is open, and `call` the one inside it, as they are written in code */
export function nestedTransaction(outer: string, call: string): UsageError {
  return new UsageError(
    'nested-transaction',
    `${call} was called inside the transaction of ${outer}. Let a receipt join that transaction with { in: manager }, its manager, ` +
      'under another entity or effect; or call one after the other.',
  );
}

export function mixedReceipt(entity: string, effect: string, there: 'once' | 'onceExternal'): UsageError {
  const asked = there === 'once' ? 'onceExternal' : 'once';
  return new UsageError(
    'mixed-receipt',
    `ReceiptService.${asked}("${entity}") found the receipt of a ${there}() for the same entity and effect ("${effect}"). ` +
      `Tell the two apart by a name: ${asked}(entity, …, { effect: 'mail' }).`,
  );
}
