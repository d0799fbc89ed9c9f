import { Injectable } from '@nestjs/common';
import { compileSchedule, type Schedule } from '../cron/schedule.js';
import type { PartitionStore } from '../database/partition.store.js';
import { type Query, queryOn } from '../database/query.js';
import { AfterRegistration } from '../database/registration.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import { STALE, unlessBusy, untilItHolds } from '../database/retry.js';
import { busy, InvalidOptionsError, OperationRefusedError, refusedByState, renamedJob } from '../errors/errors.js';
import { planReplacements, rowsOf } from '../jobs/undecided.js';
import { ScheduleFollower } from '../jobs/schedule-follower.service.js';
import {
  type JobAsRead,
  noSuchJob,
  readJob,
  type StoredJob,
  storedJob,
  storedJobColumns,
  type StoredJobRow,
} from '../jobs/stored-job.js';
import { carryOut, type ReadOperator } from './carry-out.js';
import {
  given,
  instant,
  jobNameOf,
  type Operator,
  readOperationOptions,
  readOperator,
} from '../options/operator-options.js';
import { expected, integer, type OptionTable, type Rule } from '../options/option-rules.js';

/**
 * Puts an operator's schedule in place of the one that the code declares. Every replica follows, and no deploy changes
 * it.
 */
export class OverrideStore {
  private readonly query: Query;

  constructor(
    private readonly database: SchedulerDatabase,
    private readonly partitions: PartitionStore,
  ) {
    this.query = queryOn(database.coordination);
  }

  /**
   * What is decided stays decided: another expression or zone holds from now on.
   * @param change gets the job as it is; again, when others have changed it meanwhile
   */
  override(jobName: string, change: (stored: StoredJob) => Schedule, { by, reason }: ReadOperator): Promise<void> {
    return untilItHolds(`Job "${jobName}"`, async () => {
      const { stored, seen, now } = await this.read(jobName);
      if (stored.runTime)
        throw new OperationRefusedError(
          'job-kind',
          `Job "${jobName}" was made at run time: change it with JobRegistry.update.`,
        );
      const { expression, timeZone } = change(stored);
      const edited = stored.cron !== expression || stored.timeZone !== timeZone;
      const plans = await planReplacements(this.query, this.database, edited ? [stored] : [], now);
      const details = { cron: expression, timeZone, was: { cron: stored.cron, timeZone: stored.timeZone } };
      const values = [
        ...[jobName, seen, edited ? JSON.stringify(plans.get(jobName)) : null],
        ...[expression, timeZone, by, reason, JSON.stringify(details)],
      ];
      const [written] = await unlessBusy('override', `job "${jobName}"`, () =>
        this.partitions.makingSure(
          () => rowsOf(plans.values()),
          () => this.database.call<{ job_schedule_override_1: boolean }>('job_schedule_override_1', values),
        ),
      );
      if (!written!.job_schedule_override_1) return STALE;
    });
  }

  /**
   * From now on declarations count again: the first live instance that declares another schedule takes over.
   * @returns false when there was no override
   */
  clear(jobName: string, { by, reason }: ReadOperator): Promise<boolean> {
    return untilItHolds(`Job "${jobName}"`, async () => {
      await this.read(jobName);
      const [cleared] = await unlessBusy('clear the override of', `job "${jobName}"`, () =>
        this.database.call<{ job_schedule_clear_override_1: boolean | null }>('job_schedule_clear_override_1', [
          jobName,
          by,
          reason,
        ]),
      );
      return cleared!.job_schedule_clear_override_1 ?? STALE;
    });
  }

  /** @throws NotFoundError, OperationRefusedError */
  private async read(jobName: string): Promise<JobAsRead> {
    const { tables } = this.database;
    const read = await readJob(this.query, tables, jobName);
    if (!read || read.stored.removed) throw await noSuchJob(this.query, tables.jobSchedule, jobName);
    if (read.stored.yieldsTo !== null) throw renamedJob(jobName, read.stored.yieldsTo);
    return read;
  }
}

/** What an operator puts in place of what the code declares; what is left out stays as it is. */
export interface ScheduleOverride {
  readonly cron?: string;
  readonly timeZone?: string;
}

/** What it says is read with the schedule. */
const written =
  (example: string): Rule<string> =>
  (given) =>
    typeof given === 'string' ? { value: given } : expected(example, given);

const OVERRIDE = {
  cron: { rule: written('a cron expression such as "15 2 * * *"') },
  timeZone: { rule: written('an IANA name such as "Europe/Berlin"') },
} as const satisfies Record<keyof ScheduleOverride, OptionTable[string]>;

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

/**
 * Gives jobs another schedule than the code does, until that is taken back: through deploys, restarts and renames. And
 * leaves out occurrences that are yet to come.
 */
@Injectable()
@AfterRegistration()
export class ScheduleEdits {
  constructor(
    private readonly overrides: OverrideStore,
    private readonly skips: SkipStore,
    private readonly follower: ScheduleFollower,
  ) {}

  /** See `SchedulerService.override`. */
  async override(jobName: string, schedule: ScheduleOverride, operator: Operator): Promise<void> {
    const verb = 'SchedulerService.override';
    const read = readOperator(operator, verb);
    const { cron, timeZone } = readOperationOptions(schedule, OVERRIDE, verb);
    if (cron === undefined && timeZone === undefined)
      throw new InvalidOptionsError([`${verb}: expected a cron expression, a timeZone, or both.`]);
    const name = jobNameOf(jobName, verb);
    await this.overrides.override(
      name,
      (stored) => compileSchedule(cron ?? stored.cron, timeZone ?? stored.timeZone, name, stored.calendar),
      read,
    );
    this.follower.wake();
  }

  /** See `SchedulerService.clearOverride`. */
  async clearOverride(jobName: string, operator: Operator): Promise<boolean> {
    const verb = 'SchedulerService.clearOverride';
    const cleared = await this.overrides.clear(jobNameOf(jobName, verb), readOperator(operator, verb));
    this.follower.wake();
    return cleared;
  }

  /** See `SchedulerService.skipNext`. */
  async skipNext(jobName: string, operator: Operator, options?: SkipOptions): Promise<Date[]> {
    const verb = 'SchedulerService.skipNext';
    const read = readOperator(operator, verb);
    const name = jobNameOf(jobName, verb);
    const { count = 1 } = readOperationOptions(options, SKIP_OPTIONS, verb);
    return this.skips.skip(
      name,
      ({ cron, timeZone, calendar }, now) =>
        compileSchedule(cron, timeZone, name, calendar).between(now, Infinity, count),
      read,
    );
  }

  /** See `SchedulerService.unskip`. */
  async unskip(jobName: string, fireTime: Date, operator: Operator): Promise<void> {
    const verb = 'SchedulerService.unskip';
    await this.skips.unskip(
      jobNameOf(jobName, verb),
      given(fireTime, instant, `${verb}: fireTime`),
      readOperator(operator, verb),
    );
  }
}
