import { isDate } from 'node:util/types';
import { InvalidOptionsError, unknownOption } from '../errors/errors.js';
import { withCalendar, readCalendar } from './calendar.js';
import { parseCronExpression } from './cron-expression.js';
import { IntervalSchedule, isInterval } from './interval-schedule.js';
import { timeZoneOf } from './time-zone.js';
import { type Schedule, ZonedSchedule } from './zoned-schedule.js';

export type { Schedule } from './zoned-schedule.js';

/**
 * @param expression five cron fields, or six with seconds first, an alias such as `@daily`, or an interval: `every 90s`
 * @param jobName spreads `H`
 * @param calendar from {@link Schedule.calendar}
 * @throws {InvalidScheduleError} when the expression cannot be read or never fires
 * @throws {InvalidScheduleError} when the zone is not an IANA region
 * @throws {InvalidScheduleError} when the calendar cannot be read, or leaves no fire time
 */
export function compileSchedule(
  expression: string,
  timeZone: string,
  jobName?: string,
  calendar: string | null = null,
): Schedule {
  const zone = timeZoneOf(timeZone);
  const every = isInterval(expression);
  // Of an interval no day is left out.
  const cron = parseCronExpression(every ? '* * * * *' : expression, { jobName });
  const schedule = every ? new IntervalSchedule(expression, zone.name) : new ZonedSchedule(cron, zone);
  return calendar === null ? schedule : withCalendar(schedule, readCalendar(calendar), cron.days, zone);
}

/**
 * Where, and for which job, an expression is read: what takes it throws `InvalidScheduleError` and
 * `InvalidScheduleError`.
 */
interface ZoneOptions {
  /** An IANA name. @default 'UTC' */
  readonly timeZone?: string;
  /** Spreads `H`; needed for an expression that has it. */
  readonly jobName?: string;
}

/**
 * The next `count` fire times after `from` (exclusive).
 * @throws InvalidOptionsError with every option that is missing, wrong or unknown
 */
export function nextFireTimes(
  expression: string,
  options: ZoneOptions & { readonly from: Date; readonly count: number },
): Date[] {
  checkFireTimeOptions('nextFireTimes', expression, options, ['from', 'count']);
  return scheduleOf(expression, options).between(options.from.getTime(), Infinity, options.count).map(toDate);
}

/**
 * The last fire time strictly before `before`, or null.
 * @throws InvalidOptionsError as {@link nextFireTimes}
 */
export function previousFireTime(expression: string, options: ZoneOptions & { readonly before: Date }): Date | null {
  checkFireTimeOptions('previousFireTime', expression, options, ['before']);
  const found = scheduleOf(expression, options).previousBefore(options.before.getTime());
  return found === null ? null : toDate(found);
}

/**
 * Every fire time after `from` (exclusive) up to `to` (inclusive), at most `limit`.
 * @throws InvalidOptionsError as {@link nextFireTimes}
 */
export function fireTimesBetween(
  expression: string,
  options: ZoneOptions & { readonly from: Date; readonly to: Date; readonly limit?: number },
): Date[] {
  checkFireTimeOptions('fireTimesBetween', expression, options, ['from', 'to', 'limit']);
  return scheduleOf(expression, options)
    .between(options.from.getTime(), options.to.getTime(), options.limit)
    .map(toDate);
}

function scheduleOf(expression: string, { timeZone = 'UTC', jobName }: ZoneOptions): Schedule {
  return compileSchedule(expression, timeZone, jobName);
}

function toDate(epochMs: number): Date {
  return new Date(epochMs);
}

/** What an option has to be, in words, and whether it is. */
interface Check {
  readonly expected: string;
  readonly holds: (given: unknown) => boolean;
}

const DATE: Check = { expected: 'a valid Date', holds: (given) => isDate(given) && Number.isFinite(given.getTime()) };
const COUNT: Check = {
  expected: 'a whole number, at least 0',
  holds: (given) => Number.isSafeInteger(given) && (given as number) >= 0,
};

const CHECKS = {
  timeZone: optional({ expected: 'an IANA name such as "Europe/Berlin"', holds: (given) => typeof given === 'string' }),
  jobName: optional({ expected: 'the name of a job', holds: (given) => typeof given === 'string' && given !== '' }),
  from: DATE,
  to: DATE,
  before: DATE,
  count: COUNT,
  limit: optional({ ...COUNT, holds: (given) => given === Infinity || COUNT.holds(given) }),
} as const satisfies Record<string, Check>;

/**
 * Looks through what a function that computes fire times was given. `timeZone` and `jobName` are options of each.
 * @throws InvalidOptionsError with every problem
 */
function checkFireTimeOptions(
  calledAs: string,
  expression: unknown,
  options: unknown,
  names: readonly (keyof typeof CHECKS)[],
): void {
  const known = ['timeZone', 'jobName', ...names] as const;
  const given = typeof options === 'object' && options !== null ? (options as Readonly<Record<string, unknown>>) : null;
  const problems = [
    ...(typeof expression === 'string'
      ? []
      : [`expected a cron expression such as "15 2 * * *", got ${inWords(expression)}`]),
    ...(given
      ? problemsOf(given, known)
      : [`options: expected an object with ${names.join(', ')}, got ${inWords(options)}`]),
  ];
  if (problems.length > 0) throw new InvalidOptionsError(problems.map((problem) => `${calledAs}: ${problem}`));
}

function problemsOf(given: Readonly<Record<string, unknown>>, known: readonly (keyof typeof CHECKS)[]): string[] {
  const unknown = Object.keys(given).filter((name) => !(known as readonly string[]).includes(name));
  const wrong = known.filter((name) => !CHECKS[name].holds(given[name]));
  return [
    ...unknown.map((name) => unknownOption(name, known)),
    ...wrong.map((name) => `${name}: expected ${CHECKS[name].expected}, got ${inWords(given[name])}`),
  ];
}

function optional({ expected, holds }: Check): Check {
  return { expected, holds: (given) => given === undefined || holds(given) };
}

function inWords(given: unknown): string {
  if (typeof given === 'string') return JSON.stringify(given);
  return isDate(given) || typeof given !== 'object' || given === null ? String(given) : 'an object';
}
