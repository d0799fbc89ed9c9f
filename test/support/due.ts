import type { DueOccurrence } from '../../lib/runs/claim.js';

/** An occurrence that may be claimed at its fire time. */
export function aDue(jobName: string, fireTime: Date, changes: Partial<DueOccurrence> = {}): DueOccurrence {
  return {
    jobName,
    fireTime,
    startsAt: fireTime,
    cron: '* * * * * *',
    timeZone: 'UTC',
    calendar: null,
    overlap: 'forbid',
    parallel: changes.overlap === 'allow' ? null : 1,
    queueLimit: 100,
    leaseMs: 60_000,
    ...changes,
  };
}
