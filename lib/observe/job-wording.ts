import { readCalendar } from '../cron/calendar.js';
import type { ClockChange } from '../cron/clock-changes.js';
import { timeZoneOf } from '../cron/time-zone.js';
import { formatDuration } from '../options/duration.js';
import type { JobDefinition } from '../options/job-definition.js';
import { count, listed } from './log-line.js';

/** One line about a job at boot: what it is, when it runs next, what its policies are. */
export function jobLine(job: JobDefinition, now: Date): string {
  const { schedule } = job;
  const next = schedule.nextAfter(now.getTime());
  const when =
    next === null
      ? 'never'
      : `${zonedTime(new Date(next), schedule.timeZone)} ${schedule.timeZone} (${new Date(next).toISOString()})`;
  const missed = job.missed === 'skip' ? 'skip' : `${job.missed} within ${formatDuration(job.catchUpWindowMs)}`;
  const policies = [
    `overlap ${job.overlap}`,
    `missed ${missed}`,
    count(job.maxAttempts, 'attempt'),
    `lease ${formatDuration(job.leaseMs)}`,
    ...(job.jitterMs > 0 ? [`jitter ${formatDuration(job.jitterMs)}`] : []),
    ...(schedule.isExternal
      ? [`trigger external${job.fallbackMs === null ? '' : `, fallback ${formatDuration(job.fallbackMs)}`}`]
      : []),
    ...(job.owner ? [`owner ${job.owner}`] : []),
  ];
  return `${job.name} "${schedule.expression}" (${schedule.timeZone}) next ${when}; ${policies.join(', ')}`;
}

/** A schedule of which nothing is left; null where it goes on. */
export function overLine({ name, schedule }: JobDefinition, now: Date): string | null {
  if (schedule.nextAfter(now.getTime()) !== null) return null;
  const endAtMs = schedule.calendar === null ? Infinity : readCalendar(schedule.calendar).endAtMs;
  return `${name}: it never fires again${endAtMs === Infinity ? '' : `, for its endAt (${iso(endAtMs)}) is past`}`;
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
  const names = listed(
    jobs.slice(0, 5).map(({ name }) => name),
    jobs.length,
  );
  return `Within a year, clock changes move, double or skip occurrences of ${count(jobs.length, 'job')}: ${names}`;
}

function iso(millis: number): string {
  return new Date(millis).toISOString();
}

const MOST_NAMES = 10;

/** One line about all jobs that leave an answer to a default that nobody chose. */
export function implicitLine(jobs: readonly JobDefinition[]): string {
  const names = jobs.slice(0, MOST_NAMES).map(({ name, implicit }) => `${name} (${implicit.join(', ')})`);
  return `${count(jobs.length, 'job')} ${jobs.length === 1 ? 'leaves' : 'leave'} owner, overlap or missed implicit: ${listed(names, jobs.length)}. Say them in the decorator, or overlap and missed in the module's defaults; strict: true makes this an error`;
}

/** An instant as a clock on the wall of a zone shows it: `2026-03-29 02:15:00`. */
export function zonedTime(instant: Date, timeZone: string): string {
  const { offsetMs } = timeZoneOf(timeZone).periodAt(instant.getTime());
  return new Date(instant.getTime() + offsetMs).toISOString().slice(0, 19).replace('T', ' ');
}
