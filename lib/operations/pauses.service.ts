import { Injectable } from '@nestjs/common';
import { ReaperService } from '../maintenance/reaper.service.js';
import { readOperationOptions } from '../options/operation-options.js';
import { instant, jobNameOf } from '../options/operation-rules.js';
import { readOperator, type Operator } from '../options/operator.js';
import type { OptionTable } from '../options/read-options.js';
import { AfterRegistration } from '../runtime/registration.js';
import { PauseStore, type Pause } from '../store/operations/pause.store.js';

/** How long a pause lasts. */
export interface PauseOptions {
  /** It ends by itself at this instant. @default when somebody resumes the job */
  readonly until?: Date;
}

const PAUSE_OPTIONS = { until: { rule: instant } } as const satisfies Record<keyof PauseOptions, OptionTable[string]>;

/** Holds jobs back: what comes due meanwhile is recorded as that, and is not missed. What runs goes on. */
@Injectable()
@AfterRegistration()
export class Pauses {
  constructor(
    private readonly store: PauseStore,
    private readonly reaper: ReaperService,
  ) {}

  /**
   * Nothing of the job starts from now on, on any replica.
   * @throws InvalidOptionsError, UnknownJobError, RenamedJobError
   */
  async pause(jobName: string, operator: Operator, options?: PauseOptions): Promise<Pause> {
    const read = readOperator(operator, 'SchedulerService.pause');
    const { until = null } = readOperationOptions(options, PAUSE_OPTIONS, 'SchedulerService.pause');
    return this.store.pause(jobNameOf(jobName, 'SchedulerService.pause'), until, read);
  }

  /**
   * The job goes on with what is due from now on.
   * @returns false when it was not paused
   * @throws as `pause`
   */
  async resume(jobName: string, operator: Operator): Promise<boolean> {
    const resumed = await this.store.resume(jobNameOf(jobName, 'SchedulerService.resume'), readOperator(operator, 'SchedulerService.resume'));
    this.reaper.wake();
    return resumed;
  }

  /** @returns false when it was enabled already */
  async enable(jobName: string, operator: Operator): Promise<boolean> {
    const enabled = await this.store.setEnabled(jobNameOf(jobName, 'SchedulerService.enable'), true, readOperator(operator, 'SchedulerService.enable'));
    this.reaper.wake();
    return enabled;
  }

  /** Like a pause that has no end. @returns false when it was disabled already */
  async disable(jobName: string, operator: Operator): Promise<boolean> {
    return this.store.setEnabled(jobNameOf(jobName, 'SchedulerService.disable'), false, readOperator(operator, 'SchedulerService.disable'));
  }
}
