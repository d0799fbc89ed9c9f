import { Injectable } from '@nestjs/common';
import { KnownJobs } from '../discovery/known-jobs.js';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import { UnknownJobError } from '../errors/unknown-job.error.js';
import { integer } from '../options/option-rules.js';
import { DatabaseTime } from '../runtime/database-time.js';

const FIRE_TIMES_BY_DEFAULT = 5;
const numberOfFireTimes = integer({ atLeast: 1, atMost: 10_000 });

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
    const { count = FIRE_TIMES_BY_DEFAULT, from = new Date(this.time.now()) } = options;
    const reading = numberOfFireTimes(count);
    const problems = [
      ...('problem' in reading ? [`count: ${reading.problem}`] : []),
      ...(from instanceof Date && Number.isFinite(from.getTime()) ? [] : [`from: expected a valid Date, got ${String(from)}`]),
    ];
    if (problems.length > 0) throw new InvalidOptionsError(problems.map((problem) => `nextFireTimes of job "${jobName}": ${problem}`));
    return job.schedule.between(from.getTime(), Infinity, count).map((fireTime) => new Date(fireTime));
  }
}
