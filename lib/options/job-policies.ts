import { formatDuration } from './duration.js';
import type { JobPolicies } from './job-definition.js';
import { JOB_OPTIONS, type JobValues, LEAST_LATE_MS, type ResolvedJobDefaults } from './defaults.js';
import type { DistributedCronOptions } from './job-options.js';
import { defaultsOf } from './read-options.js';

/** A job's own options before the module's defaults before the library's. */
export function resolvePolicies(own: Partial<JobValues>, defaults: ResolvedJobDefaults): JobPolicies {
  const all = { ...defaultsOf(JOB_OPTIONS), ...defaults, ...own };
  return {
    overlap: all.overlap,
    parallel: all.overlap === 'allow' ? (own.maxParallel ?? defaults.maxParallel ?? null) : 1,
    queueLimit: all.queueLimit,
    concurrencyGroup: own.concurrencyGroup ?? defaults.concurrencyGroup ?? null,
    missed: all.missed,
    catchUpWindowMs: all.catchUpWindow,
    maxCatchUp: all.maxCatchUp,
    lateAfterMs: all.lateAfter ?? null,
    leaseMs: all.lease,
    renewEveryMs: own.renewEvery ?? renewalOf(all.lease, defaults.renewEvery),
    jitterMs: all.jitter,
    maxAttempts: all.maxAttempts,
    backoff: all.backoff,
    retryable: all.retryable ?? null,
    budgetMs: all.budget ?? null,
    timeoutMs: all.timeout ?? null,
    maxRunTimeMs: all.maxRunTime,
    flag: own.flag ?? defaults.flag ?? null,
    flagOff: all.flagOff,
    fallbackMs: (own.trigger ?? defaults.trigger) === 'external' ? (all.fallback ?? null) : null,
    expectSuccessWithinMs: all.expectSuccessWithin ?? null,
  };
}

/**
 * What is wrong between options that are right each by itself.
 * @param given as it was written; an option in it that could not be read has its problem already
 */
export function problemsBetween(given: object, own: Partial<JobValues>, policies: JobPolicies): string[] {
  const unread = (name: keyof JobValues): boolean =>
    (given as DistributedCronOptions)[name] !== undefined && own[name] === undefined;
  const told = (name: keyof JobValues, millis: number): string =>
    `${name} (${formatDuration(millis)}${own[name] === undefined ? ', by default' : ''})`;
  const { leaseMs, renewEveryMs, catchUpWindowMs, lateAfterMs: chosen } = policies;
  const lateAfterMs = chosen ?? LEAST_LATE_MS;
  const problems: string[] = [];
  if (leaseMs < 3 * renewEveryMs && !unread('lease') && !unread('renewEvery')) {
    problems.push(`${told('lease', leaseMs)} must be at least 3 × ${told('renewEvery', renewEveryMs)}.`);
  }
  if (catchUpWindowMs < lateAfterMs && !unread('catchUpWindow') && !unread('lateAfter')) {
    problems.push(`${told('catchUpWindow', catchUpWindowMs)} must be at least ${told('lateAfter', lateAfterMs)}.`);
  }
  const limits = [
    ['budget', policies.budgetMs],
    ['timeout', policies.timeoutMs],
    ['maxRunTime', policies.maxRunTimeMs],
  ] as const;
  const set = limits.flatMap(([name, millis]) => (millis === null || unread(name) ? [] : [{ name, millis }]));
  set.slice(1).forEach((longer, index) => {
    const shorter = set[index]!;
    if (longer.millis < shorter.millis)
      problems.push(`${told(longer.name, longer.millis)} must be at least ${told(shorter.name, shorter.millis)}.`);
  });
  for (const [name, overlap] of [
    ['queueLimit', 'queue'],
    ['maxParallel', 'allow'],
  ] as const) {
    if (own[name] !== undefined && policies.overlap !== overlap)
      problems.push(`${name} is for overlap: '${overlap}', and overlap is '${policies.overlap}'.`);
  }
  return problems;
}

/** Of a job alone: as a default for all, it is for those that have a flag. */
export function problemsOfFlagOff(
  given: DistributedCronOptions,
  own: Partial<JobValues>,
  { flag }: JobPolicies,
): string[] {
  if (own.flagOff !== 'cancel' || flag !== null || given.flag !== undefined) return [];
  return ['flagOff is for a job with a flag, and this one has none.'];
}

/** Of a job alone, for the same reason. */
export function problemsOfFallback(own: Partial<JobValues>, defaults: ResolvedJobDefaults): string[] {
  if (own.fallback === undefined || (own.trigger ?? defaults.trigger) === 'external') return [];
  return ["fallback is for trigger: 'external'; this job is fired by its schedule."];
}

/** The module's renewal, unless it is too slow for a lease that a job chose for itself. */
function renewalOf(leaseMs: number, common: number | undefined): number {
  return common !== undefined && leaseMs >= 3 * common ? common : Math.floor(leaseMs / 4);
}
