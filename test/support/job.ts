import type { JobDefinition } from '../../lib/options/job-definition.js';
import { compileSchedule } from '../../lib/cron/schedule.js';

/** A job with short times, for tests that need one. */
export function aJob(name: string, expression: string, changes: Partial<JobDefinition> = {}): JobDefinition {
  return {
    name,
    schedule: compileSchedule(expression, 'UTC', name),
    owner: null,
    implicit: [],
    flag: null,
    flagOff: 'finish',
    fallbackMs: null,
    previously: [],
    declaredBy: 'Test.job',
    overlap: 'forbid',
    parallel: changes.overlap === 'allow' ? null : 1,
    queueLimit: 100,
    concurrencyGroup: null,
    missed: 'once',
    catchUpWindowMs: 86_400_000,
    maxCatchUp: 100,
    lateAfterMs: 120_000,
    leaseMs: 60_000,
    renewEveryMs: 15_000,
    jitterMs: 0,
    maxAttempts: 3,
    backoff: { kind: 'fixed', delayMs: 0 },
    retryable: null,
    budgetMs: null,
    timeoutMs: null,
    maxRunTimeMs: 86_400_000,
    expectSuccessWithinMs: null,
    ...changes,
  };
}
