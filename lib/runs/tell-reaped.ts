import type { SchedulerEvents } from '../observe/scheduler-events.js';
import type { ReapedRun } from './reaping.repository.js';

/** Tells of a run whose lease was over, and of its end where that was its last attempt. */
export function tellReaped(
  events: SchedulerEvents,
  { jobName, fireTime, attempt, status, claimedBy, reason, overdueMs }: ReapedRun,
): void {
  events.emit({ type: 'run.orphaned', jobName, fireTime, attempt, claimedBy, reason, overdueMs });
  if (status === 'cancelled') return events.emit({ type: 'run.cancelled', jobName, fireTime, attempt, reason });
  if (status !== 'dead') return;
  const message = `${reason.replace(/^t/, 'T')}; no attempt follows.`;
  events.emit({ type: 'run.dead', jobName, fireTime, attempt, error: { name: 'LeaseExpired', message, stack: null } });
}
