import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import { readObject } from './operation-options.js';
import { instant } from './operation-rules.js';
import { flag, integer, text } from './option-rules.js';
import type { OptionTable } from './read-options.js';

/** Which dead pages a verb is for. */
export interface DeadPageFilter {
  readonly jobName?: string;
  /** Of this occurrence alone. */
  readonly fireTime?: Date;
  /** The page of this id. */
  readonly page?: string;
  /** A part of the error's name or message, whatever its case. */
  readonly errorContains?: string;
}

/** How far a verb goes. */
export interface DeadPageOptions {
  /** How many pages at most; 1 to 10000. @default 1000 */
  readonly limit?: number;
  /** True: nothing is changed, and the answer is what would have been. @default false */
  readonly dryRun?: boolean;
}

/** A filter that was read: what is null is not asked for. */
export interface PageFilter {
  readonly jobName: string | null;
  readonly fireTime: Date | null;
  readonly page: string | null;
  readonly errorContains: string | null;
}

const FILTER = {
  jobName: { rule: text(200) },
  fireTime: { rule: instant },
  page: { rule: text(200) },
  errorContains: { rule: text(1_000) },
} as const satisfies Record<keyof DeadPageFilter, OptionTable[string]>;

const OPTIONS = {
  limit: { rule: integer({ atLeast: 1, atMost: 10_000 }) },
  dryRun: { rule: flag },
} as const satisfies Record<keyof DeadPageOptions, OptionTable[string]>;

/** @param verb for people: `SchedulerService.replayPages` @throws InvalidOptionsError with every problem */
export function readPageFilter(given: DeadPageFilter | undefined, options: DeadPageOptions | undefined, verb: string): { filter: PageFilter; limit: number; dryRun: boolean } {
  const which = readObject(given, FILTER);
  const how = readObject(options, OPTIONS);
  const problems = [...which.problems, ...how.problems];
  if (problems.length > 0) throw new InvalidOptionsError(problems.map((problem) => `${verb}: ${problem}`));
  const { jobName = null, fireTime = null, page = null, errorContains = null } = which.values;
  return { filter: { jobName, fireTime, page, errorContains }, limit: how.values.limit ?? 1_000, dryRun: how.values.dryRun ?? false };
}
