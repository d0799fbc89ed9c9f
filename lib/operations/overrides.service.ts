import { Injectable } from '@nestjs/common';
import { compileSchedule, type Schedule } from '../cron/schedule.js';
import type { PartitionStore } from '../database/partition.store.js';
import { type Query, queryOn } from '../database/query.js';
import { AfterRegistration } from '../database/registration.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import { STALE, unlessBusy, untilItHolds } from '../database/retry.js';
import { InvalidOptionsError, OperationRefusedError, renamedJob } from '../errors/errors.js';
import { planReplacements, rowsOf } from '../jobs/replaced-schedules.js';
import { ScheduleFollower } from '../jobs/schedule-follower.service.js';
import { type JobAsRead, readJob, type StoredJob, noSuchJob } from '../jobs/stored-job.js';
import { jobNameOf, type Operator, readOperationOptions, readOperator } from '../options/operator-options.js';
import { expected, type Rule, type OptionTable } from '../options/option-rules.js';
import type { ReadOperator } from './carry-out.js';

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

/** Gives jobs another schedule than the code does, until that is taken back: through deploys, restarts and renames. */
@Injectable()
@AfterRegistration()
export class Overrides {
  constructor(
    private readonly store: OverrideStore,
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
    await this.store.override(
      name,
      (stored) => compileSchedule(cron ?? stored.cron, timeZone ?? stored.timeZone, name, stored.calendar),
      read,
    );
    this.follower.wake();
  }

  /** See `SchedulerService.clearOverride`. */
  async clearOverride(jobName: string, operator: Operator): Promise<boolean> {
    const verb = 'SchedulerService.clearOverride';
    const cleared = await this.store.clear(jobNameOf(jobName, verb), readOperator(operator, verb));
    this.follower.wake();
    return cleared;
  }
}
