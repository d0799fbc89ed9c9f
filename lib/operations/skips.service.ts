import { Injectable } from '@nestjs/common';
import { compileSchedule } from '../domain/schedule/schedule.js';
import { readOperationOptions } from '../options/operation-options.js';
import { given, instant, jobNameOf } from '../options/operation-rules.js';
import { integer } from '../options/option-rules.js';
import { readOperator, type Operator } from '../options/operator.js';
import type { OptionTable } from '../options/read-options.js';
import { AfterRegistration } from '../runtime/registration.js';
import { SkipStore } from '../store/operations/skip.store.js';

export interface SkipOptions {
  /** How many; at most 1000. @default 1 */
  readonly count?: number;
}

const SKIP_OPTIONS = { count: { rule: integer({ atLeast: 1, atMost: 1_000 }) } } as const satisfies Record<keyof SkipOptions, OptionTable[string]>;

/** Leaves out occurrences that are yet to come. */
@Injectable()
@AfterRegistration()
export class Skips {
  constructor(private readonly store: SkipStore) {}

  /**
   * The next occurrences do not run: each has its row from now on, `skipped by …`. Asked again before they have passed, it
   * names the same ones.
   * @returns their fire times: fewer when the schedule ends
   * @throws InvalidOptionsError, UnknownJobError, RenamedJobError
   */
  async skipNext(jobName: string, operator: Operator, options?: SkipOptions): Promise<Date[]> {
    const verb = 'SchedulerService.skipNext';
    const read = readOperator(operator, verb);
    const name = jobNameOf(jobName, verb);
    const { count = 1 } = readOperationOptions(options, SKIP_OPTIONS, verb);
    return this.store.skip(name, ({ cron, timeZone, calendar }, now) => compileSchedule(cron, timeZone, name, calendar).between(now, Infinity, count), read);
  }

  /** An occurrence that was to be skipped runs after all. @throws InvalidOptionsError; RunRefusedError when it was not, or its time has come */
  async unskip(jobName: string, fireTime: Date, operator: Operator): Promise<void> {
    const verb = 'SchedulerService.unskip';
    await this.store.unskip(jobNameOf(jobName, verb), given(fireTime, instant, `${verb}: fireTime`), readOperator(operator, verb));
  }
}
