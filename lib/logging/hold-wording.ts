import type { EventOf } from '../events/scheduler-event.js';
import type { LogLine } from './log-line.js';
import { count } from './phrases.js';

/** A job that an operator holds back, at boot. */
export function heldLine({ jobName, hold, since, until, by, reason }: EventOf<'job.held'>): string {
  const when = `${since ? ` since ${since.toISOString()}` : ''}${until ? ` until ${until.toISOString()}` : ''}`;
  return `${jobName} is ${hold}${when}${by ? ` by ${by}` : ''}${reason ? ` (${reason})` : ''}: what comes due is recorded, and does not run`;
}

/** What was missed; no warning where an operator wanted it so. */
export function missedLine({ jobName, queued, recorded, heldBack, from, until }: EventOf<'run.missed'>): LogLine {
  const span = `from ${from.toISOString()} to ${until.toISOString()}`;
  if (queued.length === 0 && heldBack === recorded) {
    return { level: 'log', text: `${jobName} was held back ${span}: ${count(recorded, 'occurrence')} recorded as paused or disabled` };
  }
  const held = heldBack > 0 ? `, ${heldBack} of them as paused or disabled` : '';
  return { level: 'warn', text: `${jobName} missed occurrences ${span}: ${queued.length} to be run, ${recorded} recorded${held}` };
}
