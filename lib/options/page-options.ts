import type { Duration } from '../domain/duration.js';
import type { Backoff, JobDefinition } from '../domain/job-definition.js';
import { JOB_OPTIONS } from './defaults.js';
import type { BackoffOptions } from './job-options.js';
import { duration, integer } from './option-rules.js';
import { readObject } from './operation-options.js';
import type { OptionTable } from './read-options.js';

/** What a job's pages may say about themselves. Durations are milliseconds or strings such as `'30s'`. */
export interface PageOptions {
  /** How many pages of the job are worked at a time by each replica; 1 to 1000. @default 5 */
  concurrency?: number;
  /** Attempts before a page is dead and waits for a person, the first one included. @default the job's */
  maxAttempts?: number;
  /** What a failed page waits for before its next attempt. @default the job's */
  backoff?: BackoffOptions;
  /** How long a page may take: then its signal aborts with a `TimeoutError`, and the attempt has failed when its handler ends. @default none */
  timeout?: Duration;
}

/** How a job's pages are worked, every default filled in. */
export interface PagePolicies {
  readonly concurrency: number;
  readonly maxAttempts: number;
  readonly backoff: Backoff;
  readonly timeoutMs: number | null;
}

const PAGE_OPTIONS = {
  concurrency: { rule: integer({ atLeast: 1, atMost: 1_000 }) },
  maxAttempts: JOB_OPTIONS.maxAttempts,
  backoff: JOB_OPTIONS.backoff,
  timeout: { rule: duration({ atLeast: 1 }) },
} as const satisfies Record<keyof PageOptions, OptionTable[string]>;

const CONCURRENCY = 5;

/** @returns the policies, with all that is wrong with the options */
export function readPageOptions(given: unknown, job: JobDefinition): { readonly policies: PagePolicies; readonly problems: readonly string[] } {
  const { values, problems } = readObject(given, PAGE_OPTIONS);
  const { concurrency = CONCURRENCY, maxAttempts = job.maxAttempts, backoff = job.backoff, timeout = null } = values;
  return { policies: Object.freeze({ concurrency, maxAttempts, backoff, timeoutMs: timeout }), problems };
}
