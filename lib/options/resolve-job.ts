import { calendarText, readCalendar, type CalendarRules } from '../cron/calendar.js';
import { compileSchedule, type Schedule } from '../cron/schedule.js';
import { SchedulerError, InvalidOptionsError } from '../errors/errors.js';
import { expected, defaultsOf, readOptions } from './option-rules.js';
import { formatDuration } from './duration.js';
import type { JobPolicies, DistributedCronOptions, ImplicitOption, JobDefinition } from './job-definition.js';
import { JOB_OPTIONS, type JobValues, LEAST_LATE_MS, type ResolvedJobDefaults } from './defaults.js';
import { SharedValues } from '../cron/cron-expression.js';

/** The compiled schedule, or everything that is wrong with its expression, its zone and its calendar. */
function readSchedule(
  expression: unknown,
  timeZone: string,
  jobName: string,
  rules: CalendarRules,
): { schedule: Schedule | null; problems: string[] } {
  if (typeof expression !== 'string') {
    const { problem } = expected('a cron expression such as "15 2 * * *"', expression);
    return { schedule: null, problems: [problem, ...problemsOfCalendar(rules)] };
  }
  try {
    return { schedule: compileSchedule(expression, timeZone, jobName, calendarText(rules)), problems: [] };
  } catch (error) {
    if (!(error instanceof SchedulerError)) throw error;
    // Several may be wrong, and only one of them was thrown.
    const problems = [
      ...problemsOfZone(timeZone),
      ...problemsOf(() => compileSchedule(expression, 'UTC', jobName)),
      ...problemsOfCalendar(rules),
    ];
    return { schedule: null, problems: problems.length > 0 ? problems : [error.message] };
  }
}

/** What is wrong with a time zone. */
export function problemsOfZone(timeZone: string): string[] {
  return problemsOf(() => compileSchedule('* * * * *', timeZone));
}

/** What is wrong with days that all jobs leave out. */
export function problemsOfExclude(exclude: readonly string[] | undefined): string[] {
  const each = problemsOfCalendar({ exclude });
  return each.length > 0
    ? each
    : problemsOf(() => compileSchedule('* * * * *', 'UTC', undefined, calendarText({ exclude })));
}

/** What is wrong with each part by itself, whatever the expression. */
function problemsOfCalendar({ startAt, endAt, exclude = [] }: CalendarRules): string[] {
  const parts: readonly CalendarRules[] = [{ startAt, endAt }, ...exclude.map((day) => ({ exclude: [day] }))];
  return parts.flatMap((part) =>
    problemsOf(() => {
      const text = calendarText(part);
      if (text !== null) readCalendar(text);
    }),
  );
}

function problemsOf(action: () => unknown): string[] {
  try {
    action();
    return [];
  } catch (error) {
    if (error instanceof SchedulerError) return [error.message];
    throw error;
  }
}

/** A job's own options before the module's defaults before the library's. */
export function resolvePolicies(own: Partial<JobValues>, defaults: ResolvedJobDefaults): JobPolicies {
  const all = { ...defaultsOf(JOB_OPTIONS), ...defaults, ...own };
  return {
    overlap: all.overlap,
    parallel: all.overlap === 'allow' ? (own.maxParallel ?? defaults.maxParallel ?? null) : 1,
    queueLimit: all.queueLimit,
    concurrencyGroup: own.concurrencyGroup ?? defaults.concurrencyGroup ?? null,
    missed: all.missed,
    catchUpWindowMs: all.catchUpWindow,
    maxCatchUp: all.maxCatchUp,
    lateAfterMs: all.lateAfter ?? null,
    leaseMs: all.lease,
    renewEveryMs: own.renewEvery ?? renewalOf(all.lease, defaults.renewEvery),
    jitterMs: all.jitter,
    maxAttempts: all.maxAttempts,
    backoff: all.backoff,
    retryable: all.retryable ?? null,
    budgetMs: all.budget ?? null,
    timeoutMs: all.timeout ?? null,
    maxRunTimeMs: all.maxRunTime,
    flag: own.flag ?? defaults.flag ?? null,
    flagOff: all.flagOff,
    fallbackMs: (own.trigger ?? defaults.trigger) === 'external' ? (all.fallback ?? null) : null,
    expectSuccessWithinMs: all.expectSuccessWithin ?? null,
  };
}

/**
 * What is wrong between options that are right each by itself.
 * @param given as it was written; an option in it that could not be read has its problem already
 */
export function problemsBetween(given: object, own: Partial<JobValues>, policies: JobPolicies): string[] {
  const unread = (name: keyof JobValues): boolean =>
    (given as DistributedCronOptions)[name] !== undefined && own[name] === undefined;
  const told = (name: keyof JobValues, millis: number): string =>
    `${name} (${formatDuration(millis)}${own[name] === undefined ? ', by default' : ''})`;
  const { leaseMs, renewEveryMs, catchUpWindowMs, lateAfterMs: chosen } = policies;
  const lateAfterMs = chosen ?? LEAST_LATE_MS;
  const problems: string[] = [];
  if (leaseMs < 3 * renewEveryMs && !unread('lease') && !unread('renewEvery')) {
    problems.push(`${told('lease', leaseMs)} must be at least 3 × ${told('renewEvery', renewEveryMs)}.`);
  }
  if (catchUpWindowMs < lateAfterMs && !unread('catchUpWindow') && !unread('lateAfter')) {
    problems.push(`${told('catchUpWindow', catchUpWindowMs)} must be at least ${told('lateAfter', lateAfterMs)}.`);
  }
  const limits = [
    ['budget', policies.budgetMs],
    ['timeout', policies.timeoutMs],
    ['maxRunTime', policies.maxRunTimeMs],
  ] as const;
  const set = limits.flatMap(([name, millis]) => (millis === null || unread(name) ? [] : [{ name, millis }]));
  set.slice(1).forEach((longer, index) => {
    const shorter = set[index]!;
    if (longer.millis < shorter.millis)
      problems.push(`${told(longer.name, longer.millis)} must be at least ${told(shorter.name, shorter.millis)}.`);
  });
  for (const [name, overlap] of [
    ['queueLimit', 'queue'],
    ['maxParallel', 'allow'],
  ] as const) {
    if (own[name] !== undefined && policies.overlap !== overlap)
      problems.push(`${name} is for overlap: '${overlap}', and overlap is '${policies.overlap}'.`);
  }
  return problems;
}

/** Of a job alone: as a default for all, it is for those that have a flag. */
function problemsOfFlagOff(given: DistributedCronOptions, own: Partial<JobValues>, { flag }: JobPolicies): string[] {
  if (own.flagOff !== 'cancel' || flag !== null || given.flag !== undefined) return [];
  return ['flagOff is for a job with a flag, and this one has none.'];
}

/** Of a job alone, for the same reason. */
function problemsOfFallback(own: Partial<JobValues>, defaults: ResolvedJobDefaults): string[] {
  if (own.fallback === undefined || (own.trigger ?? defaults.trigger) === 'external') return [];
  return ["fallback is for trigger: 'external'; this job is fired by its schedule."];
}

/** The module's renewal, unless it is too slow for a lease that a job chose for itself. */
function renewalOf(leaseMs: number, common: number | undefined): number {
  return common !== undefined && leaseMs >= 3 * common ? common : Math.floor(leaseMs / 4);
}

const IMPLICIT = new SharedValues<readonly ImplicitOption[]>();

const NO_NAMES: readonly string[] = Object.freeze([]);

/** What a decorator, or a job made at run time, declares. */
interface JobDeclaration {
  readonly expression: string;
  readonly options?: DistributedCronOptions;
  /** The name of a job that does not name itself: `InvoiceService.export`. */
  readonly defaultName: string;
  /** Where it stands, for people: `InvoiceService.export`. */
  readonly declaredBy: string;
  /** For the handler of a job made at run time. */
  readonly data?: unknown;
  /** From `ResolvedSchedulerOptions.jobDefaults`. */
  readonly defaults: ResolvedJobDefaults;
}

/**
 * Reads a declared job, frozen, every default filled in.
 * @throws InvalidOptionsError with every problem, each naming class, method and job
 */
export function resolveJob(declaration: JobDeclaration): JobDefinition {
  const { expression, options = {}, defaultName, declaredBy, data, defaults } = declaration;
  if (typeof options !== 'object' || options === null) {
    throw new InvalidOptionsError([`${declaredBy}: ${expected('an object of job options', options).problem}`]);
  }
  const { values, problems } = readOptions(options, JOB_OPTIONS, '');
  const name = values.name ?? defaultName;
  const policies = resolvePolicies(values, defaults);
  const { schedule, problems: unread } = readSchedule(
    expression,
    values.timeZone ?? defaults.timeZone ?? 'UTC',
    name,
    calendarOf(values, defaults),
  );
  const all = [
    ...problems,
    ...problemsOfDefaultName(options, defaultName),
    ...unread,
    ...problemsBetween(options, values, policies),
    ...problemsOfFlagOff(options, values, policies),
    ...problemsOfFallback(values, defaults),
  ];
  if (all.length > 0 || schedule === null) {
    const named =
      name === declaredBy || (options.name !== undefined && values.name === undefined) ? '' : `job "${name}": `;
    throw new InvalidOptionsError(all.map((problem) => `${declaredBy}: ${named}${problem}`));
  }
  const { owner = null, previously = NO_NAMES } = values;
  if (previously.includes(name))
    throw new InvalidOptionsError([`${declaredBy}: previously: "${name}" is the job's name now.`]);
  return Object.freeze({
    name,
    schedule,
    owner,
    previously,
    data,
    declaredBy,
    implicit: implicitOf({ ...defaults, ...values }),
    ...policies,
  });
}

function calendarOf(
  { trigger, startAt, endAt, exclude }: Partial<JobValues>,
  defaults: ResolvedJobDefaults,
): CalendarRules {
  return { trigger: trigger ?? defaults.trigger, startAt, endAt, exclude: exclude ?? defaults.exclude };
}

/** Of thousands of jobs most leave the same implicit: the list is one. */
function implicitOf(values: Partial<JobValues>): readonly ImplicitOption[] {
  const names = (['owner', 'overlap', 'missed'] as const).filter((name) => values[name] === undefined);
  return IMPLICIT.of(names.join(), () => Object.freeze(names));
}

function problemsOfDefaultName(options: DistributedCronOptions, defaultName: string): string[] {
  if (options.name !== undefined) return [];
  const reading = JOB_OPTIONS.name.rule(defaultName);
  return 'value' in reading ? [] : [`its default name cannot be used, give it a name: ${reading.problem}`];
}
