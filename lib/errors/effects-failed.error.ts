import { SchedulerError } from './scheduler.error.js';

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
    const shown = failed.slice(0, SHOWN).map(({ entity, error }) => `"${entity}": ${error instanceof Error ? error.message : String(error)}`);
    const more = failed.length > SHOWN ? `; and ${failed.length - SHOWN} more` : '';
    super(
      `${failed.length} of ${failed.length + applied + skipped} effects failed: ${shown.join('; ')}${more}. ` +
        (stopped ? 'They were too many: the rest was not tried.' : 'The others are done and will not be repeated.'),
      { cause: failed[0]?.error },
    );
  }
}
