import type { StoredError } from '../errors/stored-error.js';
import type { EventOf } from './scheduler-event.js';
import { formatDuration } from '../options/duration.js';
import type { RunKey } from '../options/run.js';

/** One line of log. */
export interface LogLine {
  readonly level: 'debug' | 'log' | 'warn' | 'error';
  readonly text: string;
  readonly stack?: string | undefined;
}

/** `1 job`, `2 jobs`. */
export function count(many: number, what: string): string {
  return `${many} ${what}${many === 1 ? '' : 's'}`;
}

/**
 * `a, b and c`, or `a, b and 7 more`.
 * @param many how many there are, of which `texts` are the first
 */
export function listed(texts: readonly string[], many: number): string {
  const last = many > texts.length ? `${many - texts.length} more` : texts.at(-1)!;
  const before = many > texts.length ? texts : texts.slice(0, -1);
  return before.length === 0 ? last : `${before.join(', ')} and ${last}`;
}

/** A duration that was measured, as exact as a person reads it: `850ms`, `4s300ms`, `1m5s`. @param millis at least 0 */
export function roughly(millis: number): string {
  const step = millis < 1_000 ? 1 : millis < 10_000 ? 100 : 1_000;
  return formatDuration(Math.round(millis / step) * step);
}

export function run({ jobName, fireTime }: RunKey): string {
  return `${jobName} of ${fireTime.toISOString()}`;
}

export function said({ name, message }: StoredError): string {
  return `${name}: ${message}`;
}

export function stack(error: StoredError): string | undefined {
  return error.stack ?? undefined;
}

/** A job that an operator holds back, at boot. */
export function heldLine({ jobName, hold, since, until, by, reason }: EventOf<'job.held'>): string {
  const when = `${since ? ` since ${since.toISOString()}` : ''}${until ? ` until ${until.toISOString()}` : ''}`;
  return `${jobName} is ${hold}${when}${by ? ` by ${by}` : ''}${reason ? ` (${reason})` : ''}: what comes due is recorded, and does not run`;
}

/** What is forgotten, and what is not yet. */
export function partitionLine(event: EventOf<'partition.dropped' | 'partition.kept'>): LogLine {
  if (event.type === 'partition.dropped') {
    const text = `Dropped partitions ${event.names.join(', ')}, older than the retention`;
    if (event.dead === 0) return { level: 'log', text };
    return {
      level: 'warn',
      text: `${text}, and with them ${count(event.dead, 'dead run')} that nobody had replayed or discarded`,
    };
  }
  return { level: 'warn', text: `${event.name} is older than the retention and is kept: ${why(event)}` };
}

function why({ open }: EventOf<'partition.kept'>): string {
  if (!open) return 'a transaction that began before has not ended';
  const { runs, pages, inDoubt, backfills } = open;
  const all = [
    count(runs, 'run'),
    count(pages, 'page'),
    count(inDoubt, 'call') + ' in doubt',
    count(backfills, 'backfill'),
  ];
  const left = all.filter((text) => !text.startsWith('0 '));
  return `open in it: ${listed(left, left.length)}`;
}

type Job = EventOf<'job.unregistered'>['jobs'][number];

const MOST_NAMES = 10;

/** What nobody runs any more, and what can be done about it. */
export function unregisteredLine(jobs: readonly Job[]): string {
  const declared = jobs.filter(({ missingHandler }) => missingHandler === null);
  const handlers = new Set(jobs.flatMap(({ missingHandler }) => missingHandler ?? []));
  return [
    ...(declared.length > 0 ? [declaredLine(declared)] : []),
    ...[...handlers].map((handler) =>
      handlerLine(
        handler,
        jobs.filter(({ missingHandler }) => missingHandler === handler),
      ),
    ),
  ].join('. ');
}

function declaredLine(jobs: readonly Job[]): string {
  const told = jobs.slice(0, MOST_NAMES);
  const gone = `No live instance declares ${names(jobs)} any more: ${areNotRun(jobs)}`;
  if (jobs.length > 1) {
    const same = told.flatMap(({ jobName, perhapsNow }) =>
      perhapsNow === null ? [] : [`${perhapsNow} as ${jobName} had`],
    );
    const advice =
      'If one was renamed, declare the new name with previously and the old one, and it goes on where that was';
    return `${gone}. ${advice}${same.length > 0 ? `. Same schedule: ${listed(same, same.length)}` : ''}`;
  }
  const { jobName, perhapsNow } = jobs[0]!;
  return perhapsNow === null
    ? `${gone}. If it was renamed, declare the new name with previously: '${jobName}', and it goes on where that was`
    : `${gone}. ${perhapsNow} has the same schedule: if that is ${jobName} under a new name, declare it with previously: '${jobName}', and it goes on where that was`;
}

function handlerLine(handler: string, jobs: readonly Job[]): string {
  return `No live instance has the handler "${handler}" of ${names(jobs)}, made at run time: ${areNotRun(jobs)} until one has`;
}

function names(jobs: readonly Job[]): string {
  return listed(
    jobs.slice(0, MOST_NAMES).map(({ jobName }) => jobName),
    jobs.length,
  );
}

function areNotRun(jobs: readonly Job[]): string {
  return jobs.length === 1 ? 'it is not run' : 'they are not run';
}

/** Two applications halve each other's runs. */
export function sharedJobsLine({ application, other, jobs, handlers }: EventOf<'jobs.shared'>): string {
  const what = [named('job', jobs), named('handler', handlers)].filter((text) => text !== null).join(' and ');
  return (
    `The application "${other}" has ${what}, too, in the same schema as this one, "${application}": each occurrence runs in only one of them. ` +
    'Give each application a schema of its own (forRoot({ schema })) or other names; if the two are meant to share this work, give both one forRoot({ application })'
  );
}

/** Replicas that derive other fire times. */
export function differingZonesLine({ zones, tz, other, otherTz }: EventOf<'zones.differ'>): string {
  return (
    `The clock of ${listed(zones.slice(0, MOST_NAMES), zones.length)} changes otherwise by the time-zone data of ${other} (tz ${otherTz ?? 'unknown'}) than by those here ` +
    `(tz ${tz ?? 'unknown'}): the two derive other fire times, and a job in it may run twice or not at all. Let all replicas run the same version of Node.js, with the same time-zone data`
  );
}

function named(what: string, names: readonly string[]): string | null {
  if (names.length === 0) return null;
  return `the ${what}${names.length === 1 ? '' : 's'} ${listed(names.slice(0, MOST_NAMES), names.length)}`;
}
