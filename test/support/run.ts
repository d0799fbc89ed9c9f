import type { OwnedRun } from '../../lib/options/run.js';
import { monotonicNow } from '../../lib/database/clock.js';

/** A claim that was just won. */
export function aRun(changes: Partial<OwnedRun> = {}): OwnedRun {
  return {
    jobName: 'job',
    fireTime: new Date('2026-03-10T10:00:00Z'),
    attempt: 1,
    releases: 0,
    trigger: 'schedule',
    beside: false,
    instanceId: 'A',
    leaseMs: 60_000,
    leaseUntil: new Date('2026-03-10T10:01:00Z'),
    leaseDeadline: monotonicNow() + 60_000,
    ...changes,
  };
}
