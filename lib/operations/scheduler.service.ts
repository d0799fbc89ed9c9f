import { Injectable } from '@nestjs/common';
import { KnownJobs } from '../discovery/known-jobs.js';
import type { JobDefinition } from '../domain/job-definition.js';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import { UnknownJobError } from '../errors/unknown-job.error.js';
import type { BackfillOptions, CancelOptions } from '../options/backfill-options.js';
import { integer } from '../options/option-rules.js';
import { DatabaseTime } from '../runtime/database-time.js';
import type { BackfillPlan, BackfillProgress } from './backfill-report.js';
import { Backfills } from './backfills.service.js';

const FIRE_TIMES_BY_DEFAULT = 5;
const numberOfEntries = integer({ atLeast: 1, atMost: 10_000 });

/** Which fire times are asked for. */
export interface NextFireTimesOptions {
  /** 1 to 10000. @default 5 */
  count?: number;
  /** Exclusive. @default now, by the database's clock */
  from?: Date;
}

/** What an operator does with jobs. Nothing here runs by itself. */
@Injectable()
export class SchedulerService {
  constructor(
    private readonly jobs: KnownJobs,
    private readonly time: DatabaseTime,
    private readonly backfillsOf: Backfills,
  ) {}

  /**
   * The fire times of a job that come next. Looks at nothing but the schedule: a job that is paused has them, too.
   * @throws UnknownJobError, InvalidOptionsError
   */
  nextFireTimes(jobName: string, options: NextFireTimesOptions = {}): Date[] {
    const { schedule } = this.job(jobName);
    const { count = FIRE_TIMES_BY_DEFAULT, from = new Date(this.time.now()) } = options;
    const problems = [
      ...problemsOf('count', count),
      ...(from instanceof Date && Number.isFinite(from.getTime()) ? [] : [`from: expected a valid Date, got ${String(from)}`]),
    ];
    if (problems.length > 0) throw new InvalidOptionsError(problems.map((problem) => `nextFireTimes of job "${jobName}": ${problem}`));
    return schedule.between(from.getTime(), Infinity, count).map((fireTime) => new Date(fireTime));
  }

  /**
   * Runs the past occurrences of a job from `from` to `to`, both included, oldest first, a few at a time; none may still be
   * to come by the database's clock. What has run already is left alone unless `replay` is asked for, and so is what is
   * under way; what was skipped or cancelled never ran. Any replica that knows the job takes part. A live occurrence is
   * never given up for it: see `overlap`.
   * @returns what is going to happen; with `dryRun`, what would
   * @throws UnknownJobError, InvalidBackfillError with every problem; nothing was written then
   */
  async backfill(jobName: string, from: Date, to: Date, options: BackfillOptions = {}): Promise<BackfillPlan> {
    return this.backfillsOf.ask(this.job(jobName), from, to, options);
  }

  /**
   * The newest backfills, newest first, with their progress.
   * @param limit 1 to 10000
   * @throws InvalidOptionsError
   */
  async backfills(limit = 100): Promise<BackfillProgress[]> {
    const problems = problemsOf('limit', limit);
    if (problems.length > 0) throw new InvalidOptionsError(problems.map((problem) => `backfills: ${problem}`));
    return this.backfillsOf.list(limit);
  }

  /**
   * Ends a backfill: nothing more of it is started. Its runs that wait become `cancelled`; an occurrence that had a row
   * before, and was not started again, is what it was. Runs under way go on to their end, retries included.
   * @returns the backfill as it is now; one that was over already is not changed
   * @throws UnknownBackfillError
   */
  cancelBackfill(id: string, options: CancelOptions = {}): Promise<BackfillProgress> {
    return this.backfillsOf.cancel(id, options);
  }

  private job(jobName: string): JobDefinition {
    const job = this.jobs.get(jobName)?.definition;
    if (!job) throw new UnknownJobError(jobName, this.jobs.names());
    return job;
  }
}

function problemsOf(name: string, value: unknown): string[] {
  const reading = numberOfEntries(value);
  return 'problem' in reading ? [`${name}: ${reading.problem}`] : [];
}
