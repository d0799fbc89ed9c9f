import type { DatabaseTrouble } from '../errors/database-trouble.js';
import {
  count,
  differingZonesLine,
  heldLine,
  type LogLine,
  partitionLine,
  roughly,
  run,
  said,
  sharedJobsLine,
  stack,
  unregisteredLine,
} from './log-line.js';
import { runLine } from './run-wording.js';
import type { BackfillFacts, EventOf, SchedulerEvent } from './scheduler-event.js';
import { formatDuration } from '../options/duration.js';

const REFUSED_STEPS = {
  claim: 'it is not claimed',
  start: 'its next attempt does not start',
  end: 'its end was not written',
  reap: 'its lease is over, and it is not reaped',
  cancel: 'its job was removed, and it is not cancelled',
  'take over': 'its process is gone, and its next attempt waits for the end of its lease',
  'give up': 'its handler was told to stop, and its next attempt waits for the end of its lease',
  'hand back': 'the answer to its claim was lost, and its next attempt waits for the end of its lease',
  settle: 'its pages have ended or are to be cancelled, and it is not ended',
  recover: 'lost pages of it are not queued again',
  'catch up': 'what it missed is not decided',
  'hand over': 'the queue has its pages, which is not noted, so that it is given them again',
} as const;

/** What the log says about an event; null when it says nothing. */
export function wordingOf(event: SchedulerEvent): LogLine | null {
  switch (event.type) {
    case 'scheduler.started':
      if (event.jobs === 0)
        return {
          level: 'warn',
          text: 'No job found: is each class with @DistributedCron among the providers or controllers of a module?',
        };
      return { level: 'log', text: `Scheduling ${count(event.jobs, 'job')} as ${event.instanceId}` };
    case 'scheduler.stopping':
      return { level: 'log', text: `Stopping: no more claims, waiting for ${count(event.running, 'running handler')}` };
    case 'scheduler.stopped':
      return event.abandoned === 0
        ? { level: 'log', text: 'Stopped' }
        : {
            level: 'warn',
            text: `Stopped with ${count(event.abandoned, 'handler')} still running: their runs are taken over when their leases end`,
          };
    case 'backfill.started':
      return {
        level: 'log',
        text: `${backfill(event)} from ${event.from.toISOString()} to ${event.to.toISOString()}: ${event.willRun} of ${count(event.occurrences, 'occurrence')} to be run`,
      };
    case 'backfill.finished':
      return {
        level: event.dead > 0 ? 'warn' : 'log',
        text: `${backfill(event)} finished: ${event.done} done, ${event.dead} dead, ${event.leftAlone} left alone of ${count(event.total, 'occurrence')}`,
      };
    case 'backfill.cancelled':
      return {
        level: 'warn',
        text: `${backfill(event)} cancelled${event.by ? ` by ${event.by}` : ''}${event.reason ? ` (${event.reason})` : ''}: ${count(event.cancelled, 'queued run')} will not start, ${event.running} running go on`,
      };
    case 'job.scheduled':
      if (event.updated)
        return { level: 'log', text: `${event.jobName} was updated; it stays scheduled as ${event.schedule}` };
      return {
        level: 'log',
        text: `${event.jobName} is scheduled as ${event.schedule} from now on${event.was === null ? '' : `; until now as ${event.was}`}`,
      };
    case 'job.unscheduled':
      return { level: 'log', text: `${event.jobName} is not scheduled any more` };
    case 'job.contested':
      return {
        level: 'warn',
        text: `${event.jobName} is declared here as ${event.declared}, and goes on as ${event.holds} until the last instance that declares that is gone`,
      };
    case 'job.overridden':
      return {
        level: 'warn',
        text: `${event.jobName} is declared here as ${event.declared}; an operator has put ${event.holds} in its place, until that is cleared`,
      };
    case 'job.held':
      return { level: 'warn', text: heldLine(event) };
    case 'data.refused':
      return {
        level: 'error',
        text: `${run(event)}: the database refuses its data (${REFUSED_STEPS[event.step]}). Others go on; mend the row, or the job's in job_schedule: ${said(event.error)}`,
      };
    case 'job.unreadable':
      return {
        level: 'error',
        text: `${event.jobName} is stored in a way that this instance cannot read, and is left to others: ${event.problem}`,
      };
    case 'job.unregistered':
      return { level: 'warn', text: unregisteredLine(event.jobs) };
    case 'job.rewound':
      return {
        level: 'warn',
        text: `${event.jobName}: the database has no rows any more from ${event.from.toISOString()} to ${event.until.toISOString()}, as after a failover to a standby that lacked them; they are decided again`,
      };
    case 'job.outdated':
      return null;
    case 'jobs.shared':
      return { level: 'warn', text: sharedJobsLine(event) };
    case 'zones.differ':
      return { level: 'warn', text: differingZonesLine(event) };
    case 'partition.created':
      return { level: 'log', text: `Made partitions ${event.names.join(', ')}` };
    case 'partition.dropped':
    case 'partition.kept':
      return partitionLine(event);
    case 'clock.skewed':
      return {
        level: 'warn',
        text:
          `This machine's clock is ${apart(event.skewMs)} the database's, more than maxClockSkew (${formatDuration(event.maxMs)}). ` +
          "Occurrences still run on time and once, because the database's clock decides; but one of the two is wrong, and so are the times in its logs: " +
          'check that both machines are synchronised (NTP)',
      };
    case 'clock.agrees':
      return {
        level: 'log',
        text: `This machine's clock agrees with the database's again (${apart(event.skewMs)} it)`,
      };
    case 'policy.failed':
      return {
        level: 'error',
        text: `${run(event)} attempt ${event.attempt}: the job's ${event.option} function threw: ${said(event.error)}`,
        stack: stack(event.error),
      };
    case 'loop.blocked':
      return {
        level: 'warn',
        text: `The event loop stood still for ${roughly(event.forMs)}: look for synchronous work in a handler`,
      };
    case 'loop.failed':
      return isTold(event.failures)
        ? {
            level: 'warn',
            text: `The ${dutyOf(event)} failed (${event.failures} in a row) and tries again: ${said(event.error)}${advice(event)}`,
          }
        : null;
    case 'loop.recovered':
      return { level: 'log', text: `The ${dutyOf(event)} works again` };
    case 'heartbeat.failed':
      return { level: 'warn', text: `The heartbeat failed and tries again: ${said(event.error)}${advice(event)}` };
    case 'heartbeat.recovered':
      return { level: 'log', text: 'The heartbeat works again' };
    case 'fastFailover.unavailable':
      return {
        level: 'warn',
        text:
          'fastFailover is of no use here: the database is reached through a pooler, which would hide that this process is gone. ' +
          'Its runs are taken over when their leases end',
      };
    case 'instance.gone':
      return {
        level: 'warn',
        text: `${event.instanceId} is gone: its liveness lock was not there for ${roughly(event.goneMs)}, and ${count(event.runs, 'run')} of it can be taken over at once`,
      };
    case 'database.unreachable':
      return {
        level: 'error',
        text: `The database has not answered since ${event.since.toISOString()}: nothing starts until it does. ${event.trouble.advice}`,
      };
    case 'database.reachable':
      return { level: 'log', text: `The database answers again; it did not since ${event.since.toISOString()}` };
    case 'job.overdue':
      return {
        level: 'error',
        text: `${event.jobName} is overdue: no run was done within ${formatDuration(event.expectedWithinMs)}; ${lastSuccess(event)}`,
      };
    case 'partitions.ending':
      return {
        level: 'error',
        text:
          `The last partition of job_runs or receipts ends ${event.until.toISOString()}, in ${count(event.daysLeft, 'day')}, and no more can be made: ` +
          'nothing that is due later will run. Grant the role what npx nestjs-distributed-cron sql roles prints, or make them yourself',
      };
    default:
      return runLine(event);
  }
}

/** The name of a loop, where that is no word for one. */
function dutyOf({ loop }: { readonly loop: string }): string {
  const duties: Readonly<Record<string, string>> = {
    schedules: 'schedule follower',
    partitions: 'partition maker',
    retention: 'dropping of old partitions',
  };
  return duties[loop] ?? loop;
}

/** `5m ahead of`, `120ms behind`: what is long, in whole seconds; what is not is compared with a limit. */
function apart(skewMs: number): string {
  const millis = Math.abs(skewMs);
  const rounded = millis < 10_000 ? millis : Math.round(millis / 1_000) * 1_000;
  return `${formatDuration(rounded)} ${skewMs < 0 ? 'behind' : 'ahead of'}`;
}

function backfill({ jobName, id }: BackfillFacts): string {
  return `Backfill ${id} of ${jobName}`;
}

function advice({ trouble }: { readonly trouble?: DatabaseTrouble | null }): string {
  return trouble ? `. ${trouble.advice}` : '';
}

function lastSuccess({ lastSuccessAt }: EventOf<'job.overdue'>): string {
  return lastSuccessAt ? `the last was done at ${lastSuccessAt.toISOString()}` : 'none was, lately';
}

/** The first failure and then fewer and fewer, so that an outage of hours does not fill a disk. */
function isTold(failures: number): boolean {
  return Number.isInteger(Math.log2(failures));
}
