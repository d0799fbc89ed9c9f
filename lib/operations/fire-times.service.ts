import { Injectable } from '@nestjs/common';
import { KnownJobs } from '../jobs/known-jobs.js';
import { unknownJobHere } from '../errors/errors.js';
import { readOperationOptions } from '../options/operator-options.js';
import { integer, type Reading, type OptionTable } from '../options/option-rules.js';
import { DatabaseTime } from '../database/clock.js';

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

  /** See `SchedulerService.nextFireTimes`. */
  next(jobName: string, options?: NextFireTimesOptions): Date[] {
    const job = this.jobs.get(jobName)?.definition;
    if (!job) throw unknownJobHere(jobName, this.jobs.names());
    const read = readOperationOptions(options, OPTIONS, `nextFireTimes of job "${jobName}"`);
    const { count = FIRE_TIMES_BY_DEFAULT, from = new Date(this.time.now()) } = read;
    return job.schedule.between(from.getTime(), Infinity, count).map((fireTime) => new Date(fireTime));
  }
}

function validDate(given: unknown): Reading<Date> {
  return given instanceof Date && Number.isFinite(given.getTime())
    ? { value: given }
    : { problem: `expected a valid Date, got ${String(given)}` };
}
