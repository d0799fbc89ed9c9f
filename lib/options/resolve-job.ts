import type { CalendarRules } from '../cron/calendar.js';
import type { ImplicitOption, JobDefinition } from './job-definition.js';
import { SharedValues } from '../cron/shared-values.js';
import { InvalidOptionsError } from '../errors/errors.js';
import { JOB_OPTIONS, type JobValues, type ResolvedJobDefaults } from './defaults.js';
import type { DistributedCronOptions } from './job-options.js';
import { problemsBetween, problemsOfFallback, problemsOfFlagOff, resolvePolicies } from './job-policies.js';
import { expected } from './option-rules.js';
import { readOptions } from './read-options.js';
import { readSchedule } from './read-schedule.js';

const IMPLICIT = new SharedValues<readonly ImplicitOption[]>();

const NO_NAMES: readonly string[] = Object.freeze([]);

/** What a decorator, or a job made at run time, declares. */
export interface JobDeclaration {
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
