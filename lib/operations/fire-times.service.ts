import { Injectable } from '@nestjs/common';
import { KnownJobs } from '../discovery/known-jobs.js';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import { UnknownJobError } from '../errors/unknown-job.error.js';
import { expected, integer, type Reading } from '../options/option-rules.js';
import { readOptions, type OptionTable, type ReadOptions } from '../options/read-options.js';
import { DatabaseTime } from '../runtime/database-time.js';

const FIRE_TIMES_BY_DEFAULT = 5;

const OPTIONS = {
  count: { rule: integer({ atLeast: 1, atMost: 10_000 }) },
  from: { rule: validDate },
} as const satisfies Record<keyof NextFireTimesOptions, OptionTable[string]>;

/** Which fire times are asked for. */
export interface NextFireTimesOptions {
  /** 1 to 10000. @default 5 */
  count?: number;
  /** Exclusive. @default now, by the database's clock */
  from?: Date;
}

/** Looks ahead. */
@Injectable()
export class FireTimes {
  constructor(
    private readonly jobs: KnownJobs,
    private readonly time: DatabaseTime,
  ) {}

  /**
   * The fire times of a job that come next. Looks at nothing but the schedule: a job that is paused has them, too.
   * @throws UnknownJobError, InvalidOptionsError
   */
  next(jobName: string, options: NextFireTimesOptions = {}): Date[] {
    const job = this.jobs.get(jobName)?.definition;
    if (!job) throw new UnknownJobError(jobName, this.jobs.names());
    const { values, problems } = readFireTimesOptions(options);
    if (problems.length > 0) throw new InvalidOptionsError(problems.map((problem) => `nextFireTimes of job "${jobName}": ${problem}`));
    const { count = FIRE_TIMES_BY_DEFAULT, from = new Date(this.time.now()) } = values;
    return job.schedule.between(from.getTime(), Infinity, count).map((fireTime) => new Date(fireTime));
  }
}

function readFireTimesOptions(given: unknown): ReadOptions<typeof OPTIONS> {
  if (typeof given === 'object' && given !== null) return readOptions(given, OPTIONS, '');
  return { values: {}, problems: [expected('an object with count or from', given).problem] };
}

function validDate(given: unknown): Reading<Date> {
  return given instanceof Date && Number.isFinite(given.getTime()) ? { value: given } : { problem: `expected a valid Date, got ${String(given)}` };
}
