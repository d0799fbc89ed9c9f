import type { SchedulerEvent } from 'nestjs-distributed-cron';
import { BALANCES } from '../jobs.js';
import { clock, type Colors } from './style.js';

/** What of a replica's events is told, and in which words; null: nothing. */
export function wordingOf(
  event: SchedulerEvent,
  colors: Colors,
  nameOf: (instanceId: string) => string,
): string | null {
  const run = 'jobName' in event && 'fireTime' in event ? `${event.jobName} of ${clock(event.fireTime)}` : '';
  switch (event.type) {
    case 'run.claimed':
      if (event.attempt > 1) return `claimed ${run}, attempt ${event.attempt}`;
      return event.jobName === BALANCES ? null : `claimed ${run}`;
    case 'run.completed': {
      const text = `done: ${run}${event.attempt > 1 ? ` at attempt ${event.attempt}` : ''}, ${seconds(event.durationMs)}`;
      return event.jobName === BALANCES ? colors.dim(text) : colors.green(text);
    }
    case 'run.failed':
      return colors.yellow(
        `failed: ${run}, attempt ${event.attempt}: ${event.error.message}; again in ${seconds(event.retryInMs)}`,
      );
    case 'run.dead':
      return colors.red(`dead: ${run} after attempt ${event.attempt}: ${event.error.message}`);
    case 'run.orphaned':
      return colors.bold(
        `take-over: the lease of ${nameOf(event.claimedBy)} on ${run} ran out ${seconds(event.overdueMs)} ago`,
      );
    case 'run.skipped':
      return colors.yellow(`skipped: ${run}, ${event.reason}`);
    case 'run.missed':
      return colors.yellow(
        `missed: ${event.jobName} from ${clock(event.from)} to ${clock(event.until)}; ${event.recorded} recorded, ${event.queued.length} to be run`,
      );
    case 'effect.inDoubt':
      return colors.yellow(
        `in doubt: the mail for customer ${event.entity} of attempt ${event.attempt} may have gone out; parked for a person, and on with the others`,
      );
    case 'lease.lost':
      return colors.red(`lost its lease on ${run}, attempt ${event.attempt}: the handler is told to stop`);
    case 'run.refused':
      return colors.red(`refused: what it wanted to say about ${run} as attempt ${event.attempt}`);
    case 'run.released':
      return `handed back: ${run}`;
    case 'loop.failed':
    case 'heartbeat.failed':
      return colors.yellow(`trouble: ${event.error.message}; it tries again`);
    default:
      return null;
  }
}

function seconds(ms: number): string {
  return ms < 1_000 ? `${Math.max(0, Math.round(ms))} ms` : `${(ms / 1_000).toFixed(1)} s`;
}
