import { Injectable } from '@nestjs/common';
import { compileSchedule } from '../domain/schedule/schedule.js';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import { readOperationOptions } from '../options/operation-options.js';
import { jobNameOf } from '../options/operation-rules.js';
import { expected, type Rule } from '../options/option-rules.js';
import { readOperator, type Operator } from '../options/operator.js';
import type { OptionTable } from '../options/read-options.js';
import { AfterRegistration } from '../runtime/registration.js';
import { ScheduleFollower } from '../scheduling/schedule-follower.service.js';
import { OverrideStore } from '../store/operations/override.store.js';

/** What an operator puts in place of what the code declares; what is left out stays as it is. */
export interface ScheduleOverride {
  readonly cron?: string;
  readonly timeZone?: string;
}

/** What it says is read with the schedule. */
const written = (example: string): Rule<string> => (given) => (typeof given === 'string' ? { value: given } : expected(example, given));

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

  /**
   * The schedule holds from now on, on every replica as soon as it looks: it is woken up, or does within one `pollInterval`.
   * What the job leaves out (`exclude`, `startAt`, `endAt`) stays.
   * @throws InvalidOptionsError, InvalidCronExpressionError, InvalidTimeZoneError, InvalidCalendarError, RenamedJobError;
   * UnknownJobError also for a job made at run time, which is changed with `JobRegistry.update`
   */
  async override(jobName: string, schedule: ScheduleOverride, operator: Operator): Promise<void> {
    const verb = 'SchedulerService.override';
    const read = readOperator(operator, verb);
    const { cron, timeZone } = readOperationOptions(schedule, OVERRIDE, verb);
    if (cron === undefined && timeZone === undefined) throw new InvalidOptionsError([`${verb}: expected a cron expression, a timeZone, or both.`]);
    const name = jobNameOf(jobName, verb);
    await this.store.override(name, (stored) => compileSchedule(cron ?? stored.cron, timeZone ?? stored.timeZone, name, stored.calendar), read);
    this.follower.wake();
  }

  /**
   * The schedule that the code declares holds again, as soon as an instance that declares it looks: it is woken up, or does
   * within one `pollInterval`.
   * @returns false when there was no override
   * @throws UnknownJobError, RenamedJobError
   */
  async clearOverride(jobName: string, operator: Operator): Promise<boolean> {
    const verb = 'SchedulerService.clearOverride';
    const cleared = await this.store.clear(jobNameOf(jobName, verb), readOperator(operator, verb));
    this.follower.wake();
    return cleared;
  }
}
