import { CronRun } from '../../domain/runs/cron-run.js';
import { AfterRunError } from '../../errors/after-run.error.js';
import { InvalidOptionsError } from '../../errors/invalid-options.error.js';
import type { InFlightRun } from '../in-flight-runs.js';
import type { RunContext } from '../run-context.js';

/**
 * The run that work belongs to: the one it was given, for code that lost its context, or the one it is called in.
 * @throws OutsideRunError, AfterRunError; InvalidOptionsError for what is no CronRun
 */
export function runFor(what: string, context: RunContext, given: unknown): InFlightRun {
  if (given === undefined) return context.require(what);
  if (!(given instanceof CronRun)) {
    throw new InvalidOptionsError([`run: expected the CronRun of a handler; for an occurrence that this process does not run there is onceForOccurrence()`]);
  }
  const run = context.runOf(given);
  if (!run || run.ended) throw new AfterRunError(what, given);
  return run;
}
