import type { EventOf } from '../events/scheduler-event.js';
import type { StoredError } from '../domain/runs/stored-error.js';
import type { LogLine } from './log-line.js';
import { roughly } from './phrases.js';

type PageEvent = EventOf<'page.started' | 'page.completed' | 'page.failed' | 'page.dead' | 'page.cancelled' | 'page.released' | 'page.lost'>;

/** What the log says about a page. There may be thousands: what went well is for those who debug. */
export function pageLine(event: PageEvent): LogLine {
  const page = `${event.jobName} of ${event.fireTime.toISOString()}, page ${event.page}`;
  switch (event.type) {
    case 'page.started':
      return { level: 'debug', text: `${page} attempt ${event.attempt} started` };
    case 'page.completed':
      return { level: 'debug', text: `${page} done in ${roughly(event.durationMs)}${event.attempt > 1 ? ` at attempt ${event.attempt}` : ''}` };
    case 'page.failed':
      return { level: 'warn', text: `${page} attempt ${event.attempt} failed, next in ${roughly(event.retryInMs)}: ${said(event.error)}`, stack: event.error.stack ?? undefined };
    case 'page.dead':
      return { level: 'error', text: `${page} is dead after attempt ${event.attempt} and waits for a person to replay or discard it: ${said(event.error)}`, stack: event.error.stack ?? undefined };
    case 'page.cancelled':
      return { level: 'log', text: `${page} attempt ${event.attempt} ended as cancelled: ${event.reason}` };
    case 'page.released':
      return { level: 'log', text: `${page} handed back: another instance goes on` };
    case 'page.lost':
      return { level: 'warn', text: `${page} attempt ${event.attempt} was delivered again elsewhere: what it still writes is refused` };
  }
}

function said({ name, message }: StoredError): string {
  return `${name}: ${message}`;
}
