import type { RunStatus } from '../options/run.js';
import { InvalidOptionsError } from '../errors/errors.js';
import { readObject } from '../options/operator-options.js';
import { expected, flag, integer, oneOf, text, type Rule, type OptionTable } from '../options/option-rules.js';

/** Runs that have failed and wait: for a person, or for their next attempt. */
export type WaitingStatus = 'dead' | 'failed' | 'orphaned';

/** Which runs a bulk verb is for. */
export interface DeadLetterFilter {
  readonly jobName?: string;
  /** `failed` and `orphaned` runs wait for their next attempt. @default 'dead' */
  readonly status?: WaitingStatus;
  /** The earliest fire time. */
  readonly from?: Date;
  /** The latest fire time. */
  readonly to?: Date;
  /** A part of the error's name or message, whatever its case. */
  readonly errorContains?: string;
}

/** A filter that was read: what is null is not asked for. */
export interface RunFilter {
  readonly jobName: string | null;
  readonly status: RunStatus;
  /** The earliest fire time. */
  readonly from: Date | null;
  /** The latest fire time. */
  readonly to: Date | null;
  /** A part of the error's name or message, whatever its case. */
  readonly errorContains: string | null;
}

/** How far a bulk verb goes. */
export interface BulkOptions {
  /** How many runs at most; 1 to 1000. @default 100 */
  readonly limit?: number;
  /** True: nothing is changed, and the answer is what would have been. @default false */
  readonly dryRun?: boolean;
}

const instant: Rule<Date> = (given) =>
  given instanceof Date && !Number.isNaN(given.getTime()) ? { value: given } : expected('a Date', given);

const FILTER = {
  jobName: { rule: text(200) },
  status: { rule: oneOf<WaitingStatus>('dead', 'failed', 'orphaned') },
  from: { rule: instant },
  to: { rule: instant },
  errorContains: { rule: text(1_000) },
} as const satisfies Record<keyof DeadLetterFilter, OptionTable[string]>;

const BULK = {
  limit: {
    rule: integer({ atLeast: 1, atMost: 1_000, whyMost: 'each call is one statement; call again for what is left' }),
  },
  dryRun: { rule: flag },
} as const satisfies Record<keyof BulkOptions, OptionTable[string]>;

/**
 * @param verb for people: `SchedulerService.replayAll`
 * @throws InvalidOptionsError with every problem
 */
export function readBulk(
  filter: DeadLetterFilter | undefined,
  options: BulkOptions | undefined,
  verb: string,
): { filter: RunFilter; limit: number; dryRun: boolean } {
  const which = readObject(filter, FILTER);
  const how = readObject(options, BULK);
  const problems = [...which.problems, ...how.problems];
  if (problems.length > 0) throw new InvalidOptionsError(problems.map((problem) => `${verb}: ${problem}`));
  const { jobName = null, status = 'dead', from = null, to = null, errorContains = null } = which.values;
  return {
    filter: { jobName, status, from, to, errorContains },
    limit: how.values.limit ?? 100,
    dryRun: how.values.dryRun ?? false,
  };
}
