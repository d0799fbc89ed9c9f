import { SchedulerError } from './scheduler.error.js';

/**
 * Thrown by the call of `ReceiptService.onceExternal`: the effect surely did not happen, for example because the
 * provider refused it. It is not in doubt then, and the next attempt makes the call. Anything else that is thrown
 * leaves it open.
 */
export class EffectNotDone extends SchedulerError {}

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
      `${failed.length} of ${failed.length + applied + skipped} effects failed: ${shown.join('; ')}${more}. ` +
        (stopped ? 'They were too many: the rest was not tried.' : 'The others are done and will not be repeated.'),
      { cause: failed[0]?.error },
    );
  }
}

/** The name of a receipt's entity or effect can't be stored. */
export class InvalidEntityError extends SchedulerError {
  constructor(what: 'entity' | 'effect', given: unknown, mostBytes: number) {
    super(
      `ReceiptService.once: the ${what} must be a number or a well-formed text of 1 to ${mostBytes} bytes without NUL, got ${describe(given)}.`,
    );
  }
}

function describe(given: unknown): string {
  if (typeof given !== 'string') return typeof given === 'object' && given !== null ? 'an object' : String(given);
  const shown = given.length > 40 ? `${given.slice(0, 40)}…` : given;
  return `${JSON.stringify(shown)} (${Buffer.byteLength(given)} bytes)`;
}

/** An effect in the database and one outside it need receipts of their own: one would be taken for the other. */
export class MixedReceiptError extends SchedulerError {
  constructor(entity: string, effect: string, there: 'once' | 'onceExternal') {
    const asked = there === 'once' ? 'onceExternal' : 'once';
    super(
      `ReceiptService.${asked}("${entity}") found the receipt of a ${there}() for the same entity and effect ("${effect}"). ` +
        `Tell the two apart by a name: ${asked}(entity, …, { effect: 'mail' }).`,
    );
  }
}

/** A transaction inside another's would wait for a second connection while it holds the first, or for itself. */
export class NestedReceiptError extends SchedulerError {
  /** @param outer the transaction that is open, and `call` the one inside it, as they are written in code */
  constructor(outer: string, call: string) {
    super(
      `${call} was called inside the transaction of ${outer}. Let a receipt join that transaction with { in: manager }, its manager, ` +
        'under another entity or effect; or call one after the other.',
    );
  }
}

/** A receipt cannot be written in the transaction, or on the data source, that it was given. */
export class ReceiptTransactionError extends SchedulerError {
  constructor(problem: string) {
    super(`The option "in" of a receipt ${problem}.`);
  }
}
