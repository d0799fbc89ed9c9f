import { Injectable } from '@nestjs/common';
import { compileSchedule } from '../cron/schedule.js';
import type { PartitionStore } from '../database/partition.store.js';
import { queryOn } from '../database/query.js';
import { AfterRegistration } from '../database/registration.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import { busy, refusedByState } from '../errors/errors.js';
import { storedJob, storedJobColumns, type StoredJob, type StoredJobRow } from '../jobs/stored-job.js';
import {
  given,
  instant,
  jobNameOf,
  type Operator,
  readOperationOptions,
  readOperator,
} from '../options/operator-options.js';
import { integer, type OptionTable } from '../options/option-rules.js';
import { carryOut, type ReadOperator } from './carry-out.js';

/** How often a job may change, or its next occurrence come, between the look at it and the skip. */
const MOST_LOOKS = 10;

/** Decides occurrences before they are due: each gets a row that says that it does not run. */
export class SkipStore {
  constructor(
    private readonly database: SchedulerDatabase,
    private readonly partitions: PartitionStore,
  ) {}

  /**
   * @param next the occurrences after the database's now, given the job as it is
   * @returns those that `next` named; one that had a row already has no other
   */
  async skip(
    jobName: string,
    next: (stored: StoredJob, now: number) => readonly number[],
    { by, reason }: ReadOperator,
  ): Promise<Date[]> {
    for (let look = 1; look <= MOST_LOOKS; look++) {
      const row = await this.look(jobName);
      const fireTimes = row ? next(storedJob(row), row.now.getTime()).map((fireTime) => new Date(fireTime)) : [];
      const values = [jobName, row?.version ?? null, fireTimes.map((fireTime) => fireTime.toISOString()), by, reason];
      const { verdict } = await this.partitions.makingSure(
        () => fireTimes,
        () => carryOut(this.database, 'job_skip_1', values, { verb: 'skip occurrences of', jobName }),
      );
      if (verdict === 'skipped') return fireTimes;
    }
    throw busy('skip occurrences of', `job "${jobName}"`);
  }

  /**
   * The occurrence runs after all. @throws OperationRefusedError when it was not skipped by an operator, or its time has come
   */
  async unskip(jobName: string, fireTime: Date, { by, reason }: ReadOperator): Promise<void> {
    const at = fireTime.toISOString();
    const { verdict } = await carryOut(this.database, 'job_unskip_1', [jobName, at, by, reason], {
      verb: 'undo a skip of',
      jobName,
    });
    if (verdict === 'unskipped') return;
    throw refusedByState(
      jobName,
      `undo the skip of ${at}`,
      'no operator skipped it, or its time has come; look at it with explain',
    );
  }

  /**
   * The job, the version of its row, and the database's clock. Nothing is held: what is decided by it is judged again
   * by the version.
   */
  private async look(jobName: string): Promise<(StoredJobRow & { version: string; now: Date }) | undefined> {
    const { coordination, tables } = this.database;
    const [row] = await queryOn(coordination)<StoredJobRow & { version: string; now: Date }>(
      `select ${storedJobColumns(this.database.tables)}, xmin::text as version, clock_timestamp() as now
       from   ${tables.jobSchedule}
       where  name = $1`,
      [jobName],
    );
    return row;
  }
}

export interface SkipOptions {
  /** How many; at most 1000. @default 1 */
  readonly count?: number;
}

const SKIP_OPTIONS = { count: { rule: integer({ atLeast: 1, atMost: 1_000 }) } } as const satisfies Record<
  keyof SkipOptions,
  OptionTable[string]
>;

/** Leaves out occurrences that are yet to come. */
@Injectable()
@AfterRegistration()
export class Skips {
  constructor(private readonly store: SkipStore) {}

  /** See `SchedulerService.skipNext`. */
  async skipNext(jobName: string, operator: Operator, options?: SkipOptions): Promise<Date[]> {
    const verb = 'SchedulerService.skipNext';
    const read = readOperator(operator, verb);
    const name = jobNameOf(jobName, verb);
    const { count = 1 } = readOperationOptions(options, SKIP_OPTIONS, verb);
    return this.store.skip(
      name,
      ({ cron, timeZone, calendar }, now) =>
        compileSchedule(cron, timeZone, name, calendar).between(now, Infinity, count),
      read,
    );
  }

  /** See `SchedulerService.unskip`. */
  async unskip(jobName: string, fireTime: Date, operator: Operator): Promise<void> {
    const verb = 'SchedulerService.unskip';
    await this.store.unskip(
      jobNameOf(jobName, verb),
      given(fireTime, instant, `${verb}: fireTime`),
      readOperator(operator, verb),
    );
  }
}
