import type { JobDefinition } from '../../domain/job-definition.js';

/** What people read in `job_schedule.policies`; the definition that an instance has is what counts. */
export function storedPolicies(job: JobDefinition): Record<string, unknown> {
  const { overlap, parallel: maxParallel, queueLimit, concurrencyGroup, missed, catchUpWindowMs, maxCatchUp, lateAfterMs, leaseMs, renewEveryMs, jitterMs, maxAttempts, backoff } = job;
  const { budgetMs, timeoutMs, maxRunTimeMs, expectSuccessWithinMs, flag, flagOff, fallbackMs, implicit, declaredBy } = job;
  const retry = backoff.kind === 'function' ? { kind: 'function' } : backoff;
  return {
    ...{ overlap, maxParallel, queueLimit, concurrencyGroup },
    ...{ missed, catchUpWindowMs, maxCatchUp, lateAfterMs, leaseMs, renewEveryMs, jitterMs, maxAttempts, backoff: retry },
    ...{ budgetMs, timeoutMs, maxRunTimeMs, expectSuccessWithinMs, flag, flagOff, fallbackMs, implicit, declaredBy },
  };
}
