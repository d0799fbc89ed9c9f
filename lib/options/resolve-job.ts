import { formatDuration } from '../domain/duration.js';
import type { JobDefinition, JobPolicies } from '../domain/job-definition.js';
import { compileSchedule, type Schedule } from '../domain/schedule.js';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import { InvalidTimeZoneError } from '../errors/invalid-time-zone.error.js';
import { SchedulerError } from '../errors/scheduler.error.js';
import { JOB_OPTIONS, type JobValues, type ResolvedJobDefaults } from './defaults.js';
import type { DistributedCronOptions } from './job-options.js';
import { expected } from './option-rules.js';
import { defaultsOf, readOptions } from './read-options.js';

/** What a decorator, or a job made at run time, declares. */
export interface JobDeclaration {
  readonly expression: string;
  readonly options?: DistributedCronOptions;
  /** The name of a job that does not name itself: `InvoiceService.export`. */
  readonly defaultName: string;
  /** Where it stands, for people: `InvoiceService.export`. */
  readonly declaredBy: string;
  /** From `ResolvedSchedulerOptions.jobDefaults`. */
  readonly defaults: ResolvedJobDefaults;
}

/**
 * Reads a declared job, frozen, every default filled in.
 * @throws InvalidOptionsError with every problem, each naming class, method and job
 */
export function resolveJob(declaration: JobDeclaration): JobDefinition {
  const { expression, options = {}, defaultName, declaredBy, defaults } = declaration;
  if (typeof options !== 'object' || options === null) {
    throw new InvalidOptionsError([`${declaredBy}: ${expected('an object of job options', options).problem}`]);
  }
  const { values, problems } = readOptions(options, JOB_OPTIONS, '');
  const name = values.name ?? defaultName;
  const policies = resolvePolicies(values, defaults);
  const { schedule, problems: unread } = readSchedule(expression, values.timeZone ?? defaults.timeZone ?? 'UTC', name);
  const all = [...problems, ...problemsOfDefaultName(options, defaultName), ...unread, ...problemsBetween(options, values, policies)];
  if (all.length > 0 || schedule === null) {
    const named = options.name !== undefined && values.name === undefined ? '' : `job "${name}": `;
    throw new InvalidOptionsError(all.map((problem) => `${declaredBy}: ${named}${problem}`));
  }
  return Object.freeze({ name, schedule, owner: values.owner ?? null, declaredBy, ...policies });
}

/** A job's own options before the module's defaults before the library's. */
export function resolvePolicies(own: Partial<JobValues>, defaults: ResolvedJobDefaults): JobPolicies {
  const all = { ...defaultsOf(JOB_OPTIONS), ...defaults, ...own };
  return {
    overlap: all.overlap,
    missed: all.missed,
    catchUpWindowMs: all.catchUpWindow,
    maxCatchUp: all.maxCatchUp,
    lateAfterMs: all.lateAfter,
    leaseMs: all.lease,
    renewEveryMs: own.renewEvery ?? renewalOf(all.lease, defaults.renewEvery),
    jitterMs: all.jitter,
    maxAttempts: all.maxAttempts,
    backoff: all.backoff,
  };
}

/**
 * What is wrong between options that are right each by itself.
 * @param given as it was written; an option in it that could not be read has its problem already
 */
export function problemsBetween(given: object, own: Partial<JobValues>, policies: JobPolicies): string[] {
  const unread = (name: keyof JobValues): boolean => (given as DistributedCronOptions)[name] !== undefined && own[name] === undefined;
  const told = (name: keyof JobValues, millis: number): string =>
    `${name} (${formatDuration(millis)}${own[name] === undefined ? ', by default' : ''})`;
  const { leaseMs, renewEveryMs, catchUpWindowMs, lateAfterMs } = policies;
  const problems: string[] = [];
  if (leaseMs < 3 * renewEveryMs && !unread('lease') && !unread('renewEvery')) {
    problems.push(`${told('lease', leaseMs)} must be at least 3 × ${told('renewEvery', renewEveryMs)}.`);
  }
  if (catchUpWindowMs < lateAfterMs && !unread('catchUpWindow') && !unread('lateAfter')) {
    problems.push(`${told('catchUpWindow', catchUpWindowMs)} must be at least ${told('lateAfter', lateAfterMs)}.`);
  }
  return problems;
}

/** The module's renewal, unless it is too slow for a lease that a job chose for itself. */
function renewalOf(leaseMs: number, common: number | undefined): number {
  return common !== undefined && leaseMs >= 3 * common ? common : Math.floor(leaseMs / 4);
}

function problemsOfDefaultName(options: DistributedCronOptions, defaultName: string): string[] {
  if (options.name !== undefined) return [];
  const reading = JOB_OPTIONS.name.rule(defaultName);
  return 'value' in reading ? [] : [`its default name cannot be used, give it a name: ${reading.problem}`];
}

function readSchedule(expression: unknown, timeZone: string, jobName: string): { schedule: Schedule | null; problems: string[] } {
  if (typeof expression !== 'string') return { schedule: null, problems: [expected('a cron expression such as "15 2 * * *"', expression).problem] };
  try {
    return { schedule: compileSchedule(expression, timeZone, jobName), problems: [] };
  } catch (error) {
    if (!(error instanceof SchedulerError)) throw error;
    // A wrong zone may have hidden a wrong expression.
    const more = error instanceof InvalidTimeZoneError && timeZone !== 'UTC' ? readSchedule(expression, 'UTC', jobName).problems : [];
    return { schedule: null, problems: [error.message, ...more] };
  }
}
