import { isDate } from 'node:util/types';
import { InvalidOptionsError, unknownOption } from '../errors/errors.js';
import { DistributedCron, DistributedCronHandler, declaring } from '../jobs/distributed-cron.decorator.js';
import type { DistributedCronOptions } from '../options/job-definition.js';

/** What `@Timeout` says, by method. */
export interface TimeoutDeclaration {
  /** Null: `ClassName.methodName`. */
  readonly name: string | null;
  readonly milliseconds: number;
  readonly handler: string;
}

export const TIMEOUT_METADATA = 'nestjs-distributed-cron:timeout';

/** Options of `@Cron`, with the names that `@nestjs/schedule` gives them. */
export interface CronOptions {
  /** The job's identity in the database. @default `ClassName.methodName` */
  readonly name?: string;
  /** An IANA name. @default the zone of the process */
  readonly timeZone?: string;
  /** Whole hours, as minutes (`120`) or `'+02:00'`: a zone says what is meant all year round. */
  readonly utcOffset?: number | string;
  /** True: the method is no job. @default false */
  readonly disabled?: boolean;
  /** True: what is due while a run is under way, on any replica, is skipped. @default false: it runs beside it */
  readonly waitForCompletion?: boolean;
  /**
   * Milliseconds: an occurrence that is later is skipped. Less than 1000 is taken for that: each start is a little late.
   * @default see `lateAfter` of `@DistributedCron`
   */
  readonly threshold?: number;
  /** False only: a replica that takes part lives until its application closes. */
  readonly unrefTimeout?: false;
}

const KNOWN: readonly string[] = [
  'name',
  'timeZone',
  'utcOffset',
  'disabled',
  'waitForCompletion',
  'threshold',
  'unrefTimeout',
] satisfies (keyof CronOptions)[];

/** As `@nestjs/schedule` has it: one attempt, and what was missed is not made up for. */
const AS_THERE = { maxAttempts: 1, missed: 'skip', overlap: 'allow' } as const satisfies DistributedCronOptions;

/**
 * Runs a method once for each fire time, over all replicas: `@Cron` of `@nestjs/schedule` with one attempt, and without
 * making up for what was missed. `@DistributedCron` has more.
 * @param cronTime five cron fields, or six with seconds first, in the zone of the process; a `Date` for one occurrence
 * @throws InvalidOptionsError with every problem
 */
export function Cron(cronTime: string | Date, options: CronOptions = {}): MethodDecorator {
  return (target, methodName, descriptor) => {
    const place = `@Cron on ${target.constructor.name}.${String(methodName)}`;
    const problems = problemsOf(options);
    const once = isDate(cronTime) ? cronTime : null;
    if (once && Number.isNaN(once.getTime()))
      problems.push('expected a cron expression or a valid Date, got an invalid Date');
    if (problems.length > 0) throw new InvalidOptionsError(problems.map((problem) => `${place}: ${problem}`));
    if (options.disabled) return;
    const { name, waitForCompletion, threshold } = options;
    const declared: DistributedCronOptions = {
      ...AS_THERE,
      ...(name !== undefined && { name }),
      ...(waitForCompletion && { overlap: 'forbid' }),
      ...(threshold !== undefined && { lateAfter: Math.max(threshold, 1_000) }),
      timeZone: zoneOf(options),
    };
    if (once) DistributedCron(expressionOf(once), { ...declared, ...onlyAt(once) })(target, methodName, descriptor);
    else DistributedCron(cronTime as string, declared)(target, methodName, descriptor);
  };
}

/**
 * Runs a method every so many milliseconds, once over all replicas. The instants are multiples of the interval since
 * 1970, so that all replicas agree: the first is not an interval after the start.
 * @param milliseconds whole seconds, from 1000
 * @throws InvalidOptionsError
 */
export function Interval(milliseconds: number): MethodDecorator;
export function Interval(name: string, milliseconds: number): MethodDecorator;
export function Interval(nameOrMilliseconds: string | number, milliseconds?: number): MethodDecorator {
  const { name, millis } = named(nameOrMilliseconds, milliseconds);
  return (target, methodName, descriptor) => {
    if (!Number.isSafeInteger(millis) || millis < 1_000 || millis % 1_000 !== 0)
      throw new InvalidOptionsError([
        `@Interval on ${target.constructor.name}.${String(methodName)}: expected milliseconds in whole seconds, from 1000, got ${millis}: fire times that all replicas agree on are whole seconds; use setInterval for what each process does by itself`,
      ]);
    const declared = { ...AS_THERE, ...(name !== null && { name }), timeZone: 'UTC' };
    DistributedCron(`every ${millis / 1_000}s`, declared)(target, methodName, descriptor);
  };
}

/**
 * Runs a method once for each deployment, so many milliseconds after its first replica has started: see
 * `ScheduleModule.forRoot({ deployment })`. It needs `ScheduleModule`.
 * @param milliseconds rounded up to a whole second, and at least 2000
 * @throws InvalidOptionsError
 */
export function Timeout(milliseconds: number): MethodDecorator;
export function Timeout(name: string, milliseconds: number): MethodDecorator;
export function Timeout(nameOrMilliseconds: string | number, milliseconds?: number): MethodDecorator {
  const { name, millis } = named(nameOrMilliseconds, milliseconds);
  return (target, methodName, descriptor) => {
    const method = `${target.constructor.name}.${String(methodName)}`;
    if (!Number.isSafeInteger(millis) || millis < 0)
      throw new InvalidOptionsError([`@Timeout on ${method}: expected milliseconds, from 0, got ${millis}`]);
    const declaration: TimeoutDeclaration = { name, milliseconds: millis, handler: `timeout ${name ?? method}` };
    DistributedCronHandler(declaration.handler)(target, methodName, descriptor);
    declaring('Timeout', TIMEOUT_METADATA, declaration)(target, methodName, descriptor);
  };
}

/** The job of a timeout: another one for each deployment. */
export function timeoutName(name: string, deployment: string): string {
  return `${name} (${deployment})`;
}

/** A fire time is a whole second. */
const wholeSecond = (instant: Date) => new Date(Math.ceil(instant.getTime() / 1_000) * 1_000);

/** In UTC. */
export function expressionOf(instant: Date): string {
  const at = wholeSecond(instant);
  return `${at.getUTCSeconds()} ${at.getUTCMinutes()} ${at.getUTCHours()} ${at.getUTCDate()} ${at.getUTCMonth() + 1} *`;
}

/** Leaves one occurrence of {@link expressionOf}. */
export function onlyAt(instant: Date): { startAt: Date; endAt: Date; timeZone: string } {
  const at = wholeSecond(instant);
  return { startAt: at, endAt: new Date(at.getTime() + 1_000), timeZone: 'UTC' };
}

function named(
  nameOrMilliseconds: string | number,
  milliseconds: number | undefined,
): { name: string | null; millis: number } {
  return typeof nameOrMilliseconds === 'string'
    ? { name: nameOrMilliseconds, millis: milliseconds! }
    : { name: null, millis: nameOrMilliseconds };
}

function problemsOf(options: CronOptions): string[] {
  const problems = Object.keys(options)
    .filter((name) => !KNOWN.includes(name) && name !== 'initialDelay')
    .map((name) => `${unknownOption(name, KNOWN)} More of them has @DistributedCron.`);
  const { timeZone, utcOffset, threshold, unrefTimeout } = options as Omit<CronOptions, 'unrefTimeout'> & {
    unrefTimeout?: boolean;
  };
  if (timeZone !== undefined && utcOffset !== undefined)
    problems.push('timeZone and utcOffset both say the zone; give one of them');
  if (utcOffset !== undefined && hoursOf(utcOffset) === null)
    problems.push(
      `utcOffset: expected whole hours, as minutes (120) or "+02:00", got ${JSON.stringify(utcOffset)}; write the IANA name of the region as timeZone`,
    );
  if (threshold !== undefined && !(Number.isSafeInteger(threshold) && threshold >= 0))
    problems.push(`threshold: expected milliseconds, from 0, got ${String(threshold)}`);
  if ('initialDelay' in options)
    problems.push(
      'initialDelay: a replica starts runs when its application is ready, and the others go on meanwhile; leave it out',
    );
  if (unrefTimeout)
    problems.push('unrefTimeout: a replica that takes part lives until its application closes; leave it out');
  return problems;
}

function zoneOf({ timeZone, utcOffset }: CronOptions): string {
  if (timeZone !== undefined) return timeZone;
  if (utcOffset === undefined) return Intl.DateTimeFormat().resolvedOptions().timeZone;
  const hours = hoursOf(utcOffset)!;
  // The sign is reversed in these names.
  return hours === 0 ? 'UTC' : `Etc/GMT${hours > 0 ? '-' : '+'}${Math.abs(hours)}`;
}

function hoursOf(offset: number | string): number | null {
  const [, sign, hours, minutes] = (typeof offset === 'string' && /^([+-])(\d{1,2}):?([0-5]\d)$/.exec(offset)) || [];
  const written = sign === undefined ? null : (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes));
  const total = typeof offset === 'number' ? offset : written;
  return total !== null && Number.isInteger(total / 60) && total >= -720 && total <= 840 ? total / 60 : null;
}
