import { count, type LogLine, roughly, run, said, stack } from './log-line.js';
import type { RunFact } from './run-event.js';
import type { EventOf } from './scheduler-event.js';
import { formatDuration } from '../options/duration.js';

/** What the log says about an occurrence, its pages and its effects; null when it says nothing. */
export function runLine(event: EventOf<RunFact['type']>): LogLine | null {
  switch (event.type) {
    case 'run.claimed':
    case 'receipt.written':
    case 'receipt.duplicate':
      return null;
    case 'run.started':
      return {
        level: 'debug',
        text: `${run(event)} attempt ${event.attempt} started ${roughly(Math.max(0, event.delayMs))} after its fire time`,
      };
    case 'run.completed':
      return {
        level: 'log',
        text: `${run(event)} done in ${roughly(event.durationMs)}${event.attempt > 1 ? ` at attempt ${event.attempt}` : ''}`,
      };
    case 'run.woundUp':
      return event.error
        ? {
            level: 'warn',
            text: `${run(event)} attempt ${event.attempt} threw after its completion, which stands: ${said(event.error)}`,
            stack: stack(event.error),
          }
        : { level: 'debug', text: `${run(event)} attempt ${event.attempt} has wound up after its completion` };
    case 'run.failed':
      return {
        level: 'warn',
        text: `${run(event)} attempt ${event.attempt} failed, next in ${roughly(event.retryInMs)}: ${said(event.error)}`,
        stack: stack(event.error),
      };
    case 'run.dead':
      return {
        level: 'error',
        text: `${run(event)} is dead after attempt ${event.attempt}${event.reason && event.reason !== 'attempts used up' ? ` (${event.reason.split(':')[0]})` : ''} and waits for a person to replay or discard it: ${said(event.error)}`,
        stack: stack(event.error),
      };
    case 'run.cancelled':
      return { level: 'log', text: `${run(event)} attempt ${event.attempt} ended as cancelled: ${event.reason}` };
    case 'run.overBudget':
      return {
        level: 'warn',
        text: `${run(event)} attempt ${event.attempt} takes longer than its budget of ${formatDuration(event.budgetMs)}, and goes on`,
      };
    case 'run.timedOut':
      return {
        level: 'warn',
        text: `${run(event)} attempt ${event.attempt} has run for its ${event.limit}: its handler was told to stop`,
      };
    case 'run.stuck':
      return {
        level: 'error',
        text: `${run(event)} attempt ${event.attempt} is stuck: it has run for ${roughly(event.runningMs)}${event.told ? ', was told to stop, and did not' : ', past its budget'}`,
      };
    case 'run.abandoned':
      return {
        level: 'error',
        text: `${run(event)} attempt ${event.attempt} has not ended in all its maxRunTime, and nothing waits for it any more: does its handler await something that never comes?`,
      };
    case 'run.released':
      return { level: 'log', text: `${run(event)} handed back: another instance goes on` };
    case 'run.skipped':
      return { level: 'log', text: `${run(event)} skipped: ${event.reason}` };
    case 'run.queued':
      return { level: 'debug', text: `${run(event)} queued (${event.trigger})` };
    case 'run.missed':
      return missedLine(event);
    case 'run.orphaned':
      return {
        level: 'warn',
        text: `${run(event)} taken from ${event.claimedBy} ${roughly(event.overdueMs)} after its lease was over (attempt ${event.attempt}): ${event.reason}`,
      };
    case 'lease.lost':
      return {
        level: 'warn',
        text: `${run(event)} attempt ${event.attempt} lost its lease (${event.cause}): its handler was told to stop`,
      };
    case 'run.refused':
      return {
        level: 'warn',
        text: `${run(event)} attempt ${event.attempt}: its ${event.write} was refused, the run is no longer ours`,
      };
    case 'run.fannedOut':
      return {
        level: 'log',
        text: `${run(event)} fanned out into ${count(event.pages, 'page')} in ${roughly(event.durationMs)}: its pages are worked from now on`,
      };
    case 'pages.published':
      return {
        level: 'debug',
        text: `${run(event)} attempt ${event.attempt} published ${count(event.published, 'page')}, ${event.added} of them new`,
      };
    case 'page.started':
    case 'page.completed':
    case 'page.failed':
    case 'page.dead':
    case 'page.cancelled':
    case 'page.released':
    case 'page.lost':
      return pageLine(event);
    case 'receipts.written':
      if (event.failed === 0) return null;
      return {
        level: 'warn',
        text: `${run(event)} attempt ${event.attempt}: ${count(event.applied, 'effect')} (${event.effect}) done, ${event.skipped} done before, ${event.failed} failed`,
      };
    case 'receipt.bypassed':
      return {
        level: 'warn',
        text:
          `${event.jobName}: the effect of a receipt (${event.effect}) ended without a statement through its manager, first for ${event.entity}. What it wrote with a ` +
          'repository or another connection is not in the receipt’s transaction and is not taken back with it: use manager.getRepository(…). Told in development only',
      };
    case 'receipt.refused':
      return {
        level: 'warn',
        text: `${run(event)} attempt ${event.attempt}: the receipt for ${event.entity} (${event.effect}) was refused, the run is no longer ours`,
      };
    case 'effect.inDoubt':
      return {
        level: 'error',
        text: `${run(event)} attempt ${event.attempt}: the call for ${event.entity} (${event.effect}) is in doubt and waits for a person to say what came of it (resolveInDoubt): ${event.error ? said(event.error) : 'it was cut off before its answer was written'}`,
      };
    case 'effect.resent':
      return {
        level: 'warn',
        text: `${run(event)} attempt ${event.attempt}: the call for ${event.entity} (${event.effect}) is made again under the same key, for an earlier one may have got through`,
      };
  }
}

/** What was missed; no warning where an operator wanted it so. */
function missedLine({ jobName, queued, recorded, heldBack, from, until }: EventOf<'run.missed'>): LogLine {
  const span = `from ${from.toISOString()} to ${until.toISOString()}`;
  if (queued.length === 0 && heldBack === recorded) {
    return {
      level: 'log',
      text: `${jobName} was held back ${span}: ${count(recorded, 'occurrence')} recorded as paused or disabled`,
    };
  }
  const held = heldBack > 0 ? `, ${heldBack} of them as paused or disabled` : '';
  return {
    level: 'warn',
    text: `${jobName} missed occurrences ${span}: ${queued.length} to be run, ${recorded} recorded${held}`,
  };
}

type PageEvent = EventOf<
  'page.started' | 'page.completed' | 'page.failed' | 'page.dead' | 'page.cancelled' | 'page.released' | 'page.lost'
>;

/** What the log says about a page. There may be thousands: what went well is for those who debug. */
function pageLine(event: PageEvent): LogLine {
  const page = `${event.jobName} of ${event.fireTime.toISOString()}, page ${event.page}`;
  switch (event.type) {
    case 'page.started':
      return { level: 'debug', text: `${page} attempt ${event.attempt} started` };
    case 'page.completed':
      return {
        level: 'debug',
        text: `${page} done in ${roughly(event.durationMs)}${event.attempt > 1 ? ` at attempt ${event.attempt}` : ''}`,
      };
    case 'page.failed':
      return {
        level: 'warn',
        text: `${page} attempt ${event.attempt} failed, next in ${roughly(event.retryInMs)}: ${said(event.error)}`,
        stack: event.error.stack ?? undefined,
      };
    case 'page.dead':
      return {
        level: 'error',
        text: `${page} is dead after attempt ${event.attempt} and waits for a person to replay or discard it: ${said(event.error)}`,
        stack: event.error.stack ?? undefined,
      };
    case 'page.cancelled':
      return { level: 'log', text: `${page} attempt ${event.attempt} ended as cancelled: ${event.reason}` };
    case 'page.released':
      return { level: 'log', text: `${page} handed back: another instance goes on` };
    case 'page.lost':
      return {
        level: 'warn',
        text: `${page} attempt ${event.attempt} was delivered again elsewhere: what it still writes is refused`,
      };
  }
}
