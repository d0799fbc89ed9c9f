import type { JobDefinition } from '../domain/job-definition.js';
import type { ClockChange } from '../domain/clock-change-preview.js';
import type { DatabaseTrouble } from '../domain/database-trouble.js';
import { formatDuration } from '../domain/duration.js';
import type { RunKey } from '../domain/run.js';
import type { StoredError } from '../domain/stored-error.js';
import type { EventOf, SchedulerEvent } from '../events/scheduler-event.js';
import { zonedTime } from './zoned-time.js';

/** One line of log. */
export interface LogLine {
  readonly level: 'debug' | 'log' | 'warn' | 'error';
  readonly text: string;
  readonly stack?: string | undefined;
}

/** What the log says about an event; null when it says nothing. */
export function wordingOf(event: SchedulerEvent): LogLine | null {
  switch (event.type) {
    case 'scheduler.started':
      if (event.jobs === 0) return { level: 'warn', text: 'No job found: is each class with @DistributedCron among the providers or controllers of a module?' };
      return { level: 'log', text: `Scheduling ${count(event.jobs, 'job')} as ${event.instanceId}` };
    case 'scheduler.stopping':
      return { level: 'log', text: `Stopping: no more claims, waiting for ${count(event.running, 'running handler')}` };
    case 'scheduler.stopped':
      return event.abandoned === 0
        ? { level: 'log', text: 'Stopped' }
        : { level: 'warn', text: `Stopped with ${count(event.abandoned, 'handler')} still running: their runs are taken over when their leases end` };
    case 'run.claimed':
    case 'receipt.written':
      return null;
    case 'run.started':
      return { level: 'debug', text: `${run(event)} attempt ${event.attempt} started ${formatDuration(Math.max(0, Math.round(event.delayMs)))} after its fire time` };
    case 'run.completed':
      return { level: 'log', text: `${run(event)} done in ${formatDuration(Math.round(event.durationMs))}${event.attempt > 1 ? ` at attempt ${event.attempt}` : ''}` };
    case 'run.failed':
      return { level: 'warn', text: `${run(event)} attempt ${event.attempt} failed, next in ${formatDuration(Math.round(event.retryInMs))}: ${said(event.error)}`, stack: stack(event.error) };
    case 'run.dead':
      return { level: 'error', text: `${run(event)} is dead after attempt ${event.attempt} and waits for a person: ${said(event.error)}`, stack: stack(event.error) };
    case 'run.released':
      return { level: 'log', text: `${run(event)} handed back: another instance goes on` };
    case 'run.skipped':
      return { level: 'log', text: `${run(event)} skipped: ${event.reason}` };
    case 'run.missed':
      return {
        level: 'warn',
        text: `${event.jobName} missed occurrences from ${event.from.toISOString()} to ${event.until.toISOString()}: ${event.queued.length} to be run, ${event.recorded} recorded`,
      };
    case 'run.orphaned':
      return { level: 'warn', text: `${run(event)} taken from ${event.claimedBy}: its lease ran out ${formatDuration(Math.round(event.overdueMs))} ago (attempt ${event.attempt})` };
    case 'lease.lost':
      return { level: 'warn', text: `${run(event)} attempt ${event.attempt} lost its lease (${event.cause}): its handler was told to stop` };
    case 'run.refused':
      return { level: 'warn', text: `${run(event)} attempt ${event.attempt}: its ${event.write} was refused, the run is no longer ours` };
    case 'receipt.duplicate':
      return { level: 'debug', text: `${run(event)} ${event.entity} (${event.effect}) was done already` };
    case 'receipt.refused':
      return { level: 'warn', text: `${run(event)} attempt ${event.attempt}: the receipt for ${event.entity} (${event.effect}) was refused, the run is no longer ours` };
    case 'job.scheduled':
      return { level: 'log', text: `${event.jobName} is scheduled as ${event.schedule} from now on${event.was === null ? '' : `; until now as ${event.was}`}` };
    case 'job.unscheduled':
      return { level: 'log', text: `${event.jobName} is not scheduled any more` };
    case 'job.contested':
      return {
        level: 'warn',
        text: `${event.jobName} is declared here as ${event.declared}, and goes on as ${event.holds} until the last instance that declares that is gone`,
      };
    case 'job.unreadable':
      return { level: 'error', text: `${event.jobName} is stored in a way that this instance cannot read, and is left to others: ${event.problem}` };
    case 'job.unregistered':
      return { level: 'warn', text: unregistered(event.jobs) };
    case 'job.outdated':
      return null;
    case 'partition.created':
      return { level: 'log', text: `Made partitions ${event.names.join(', ')}` };
    case 'clock.skewed':
      return {
        level: 'warn',
        text:
          `This machine's clock is ${apart(event.skewMs)} the database's, more than maxClockSkew (${formatDuration(event.maxMs)}). ` +
          "Occurrences still run on time and once, because the database's clock decides; but one of the two is wrong, and so are the times in its logs: " +
          'check that both machines are synchronised (NTP)',
      };
    case 'clock.agrees':
      return { level: 'log', text: `This machine's clock agrees with the database's again (${apart(event.skewMs)} it)` };
    case 'loop.failed':
      return isTold(event.failures)
        ? { level: 'warn', text: `The ${event.loop} failed (${event.failures} in a row) and tries again: ${said(event.error)}${advice(event)}` }
        : null;
    case 'loop.recovered':
      return { level: 'log', text: `The ${event.loop} works again` };
    case 'heartbeat.failed':
      return { level: 'warn', text: `The heartbeat failed and tries again: ${said(event.error)}${advice(event)}` };
    case 'heartbeat.recovered':
      return { level: 'log', text: 'The heartbeat works again' };
    case 'database.unreachable':
      return { level: 'error', text: `The database has not answered since ${event.since.toISOString()}: nothing starts until it does. ${event.trouble.advice}` };
    case 'database.reachable':
      return { level: 'log', text: `The database answers again; it did not since ${event.since.toISOString()}` };
    case 'job.overdue':
      return { level: 'error', text: `${event.jobName} is overdue: no run was done within ${formatDuration(event.expectedWithinMs)}; ${lastSuccess(event)}` };
    case 'partitions.ending':
      return {
        level: 'error',
        text:
          `The last partition of job_runs or receipts ends ${event.until.toISOString()}, in ${count(event.daysLeft, 'day')}, and no more can be made: ` +
          'nothing that is due later will run. Let the role own the tables, or make them yourself',
      };
    case 'run.overBudget':
      return { level: 'warn', text: `${run(event)} attempt ${event.attempt} has run for ${formatDuration(Math.round(event.runningMs))}, over its budget of ${formatDuration(event.budgetMs)}` };
  }
}

/** One line about a job at boot: what it is, when it runs next, what its policies are. */
export function jobLine(job: JobDefinition, now: Date): string {
  const { schedule } = job;
  const next = schedule.nextAfter(now.getTime());
  const when =
    next === null ? 'never' : `${zonedTime(new Date(next), schedule.timeZone)} ${schedule.timeZone} (${new Date(next).toISOString()})`;
  const missed = job.missed === 'skip' ? 'skip' : `${job.missed} within ${formatDuration(job.catchUpWindowMs)}`;
  const policies = [
    `overlap ${job.overlap}`,
    `missed ${missed}`,
    count(job.maxAttempts, 'attempt'),
    `lease ${formatDuration(job.leaseMs)}`,
    ...(job.jitterMs > 0 ? [`jitter ${formatDuration(job.jitterMs)}`] : []),
    ...(job.owner ? [`owner ${job.owner}`] : []),
  ];
  return `${job.name} "${schedule.expression}" (${schedule.timeZone}) next ${when}; ${policies.join(', ')}`;
}

const MOST_NAMES = 10;

function unregistered(jobs: EventOf<'job.unregistered'>['jobs']): string {
  const names = jobs.slice(0, MOST_NAMES).map(({ jobName, perhapsNow }) => (perhapsNow === null ? jobName : `${jobName} (perhaps ${perhapsNow} now)`));
  const more = jobs.length > MOST_NAMES ? ` and ${jobs.length - MOST_NAMES} more` : '';
  return (
    `No live instance declares ${names.join(', ')}${more} any more: not run. ` +
    `If a job was renamed, give its new declaration previously: '…' with the old name, and it goes on where it was`
  );
}

/** `5m ahead of`, `120ms behind`: what is long, in whole seconds. */
function apart(skewMs: number): string {
  const millis = Math.abs(skewMs);
  const rounded = millis < 10_000 ? millis : Math.round(millis / 1_000) * 1_000;
  return `${formatDuration(rounded)} ${skewMs < 0 ? 'behind' : 'ahead of'}`;
}

/** What a change of the clock will do to a job. */
export function clockChangeLine({ name, schedule: { timeZone } }: JobDefinition, change: ClockChange): string {
  const { at, kind, localTimes, count: many, fireTimes } = change;
  const [date, firstTime] = localTimes[0]!.split(' ');
  const others = localTimes.slice(1).map((text) => (text.startsWith(`${date} `) ? text.slice(date!.length + 1) : text));
  const times = listed([firstTime!, ...others], many);
  const when = `${name}: on ${date} ${times}`;
  switch (kind) {
    case 'moved': {
      const [, time] = zonedTime(new Date(at), timeZone).split(' ');
      return `${when} ${many === 1 ? 'does' : 'do'} not exist in ${timeZone}; it runs ${many === 1 ? '' : 'once, '}at ${time!.replace(/:00$/, '')} (${iso(at)})`;
    }
    case 'skipped':
      return `${when} ${many === 1 ? 'does' : 'do'} not exist in ${timeZone}; nothing runs for ${many === 1 ? 'it' : 'them'}`;
    case 'doubled':
      return `${when} ${many === 1 ? 'comes' : 'come'} twice in ${timeZone}; it runs both times (${many === 1 ? '' : 'first '}at ${iso(fireTimes[0]!)} and ${iso(fireTimes[localTimes.length]!)})`;
  }
}

/** Instead of {@link clockChangeLine}, for very many jobs. */
export function clockChangesSummary(jobs: readonly JobDefinition[]): string {
  const names = listed(jobs.slice(0, 5).map(({ name }) => name), jobs.length);
  return `Within a year, clock changes move, double or skip occurrences of ${count(jobs.length, 'job')}: ${names}`;
}

/** `a, b and c`, or `a, b and 7 more`. */
function listed(texts: readonly string[], many: number): string {
  const last = many > texts.length ? `${many - texts.length} more` : texts.at(-1)!;
  const before = many > texts.length ? texts : texts.slice(0, -1);
  return before.length === 0 ? last : `${before.join(', ')} and ${last}`;
}

function iso(millis: number): string {
  return new Date(millis).toISOString();
}

function run({ jobName, fireTime }: RunKey): string {
  return `${jobName} of ${fireTime.toISOString()}`;
}

function count(many: number, what: string): string {
  return `${many} ${what}${many === 1 ? '' : 's'}`;
}

function said({ name, message }: StoredError): string {
  return `${name}: ${message}`;
}

function stack(error: StoredError): string | undefined {
  return error.stack ?? undefined;
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
