import { Injectable } from '@nestjs/common';
import { AfterRegistration } from '../database/registration.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import { InvalidOptionsError } from '../errors/errors.js';
import { instant, jobNameOf, type Operator, readOperationOptions, readOperator } from '../options/operator-options.js';
import type { OptionTable } from '../options/option-rules.js';
import { ReaperService } from '../runs/reaper.service.js';
import { carryOut, type ReadOperator } from './carry-out.js';

/** A pause as it is stored. `until` is null for one that lasts until somebody resumes the job. */
export interface Pause {
  readonly since: Date;
  readonly until: Date | null;
}

/** Holds jobs back, and lets them go on. The table's own trigger keeps what a hold covered, once it is over. */
export class PauseStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /** A job that is paused gets another pause, from now on; the first is kept as an earlier one. */
  async pause(jobName: string, until: Date | null, { by, reason }: ReadOperator): Promise<Pause> {
    const end = until?.toISOString() ?? null;
    const details = end && JSON.stringify({ until: end });
    const { verdict, facts } = await carryOut<{ since: string; until: string | null }>(
      this.database,
      'job_pause_1',
      [jobName, end, by, reason, details],
      { verb: 'pause', jobName },
    );
    if (verdict === 'over') throw new InvalidOptionsError([`SchedulerService.pause: until: ${end} is over already`]);
    return { since: new Date(facts.since), until: facts.until === null ? null : new Date(facts.until) };
  }

  /** @returns false when it was not paused */
  async resume(jobName: string, { by, reason }: ReadOperator): Promise<boolean> {
    const { verdict } = await carryOut(this.database, 'job_resume_1', [jobName, by, reason], {
      verb: 'resume',
      jobName,
    });
    return verdict === 'changed';
  }

  /** @returns false when it was so already */
  async setEnabled(jobName: string, enabled: boolean, { by, reason }: ReadOperator): Promise<boolean> {
    const { verdict } = await carryOut(this.database, 'job_set_enabled_1', [jobName, enabled, by, reason], {
      verb: enabled ? 'enable' : 'disable',
      jobName,
    });
    return verdict === 'changed';
  }
}

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

  /** See `SchedulerService.pause`. */
  async pause(jobName: string, operator: Operator, options?: PauseOptions): Promise<Pause> {
    const read = readOperator(operator, 'SchedulerService.pause');
    const { until = null } = readOperationOptions(options, PAUSE_OPTIONS, 'SchedulerService.pause');
    return this.store.pause(jobNameOf(jobName, 'SchedulerService.pause'), until, read);
  }

  /** See `SchedulerService.resume`. */
  async resume(jobName: string, operator: Operator): Promise<boolean> {
    const resumed = await this.store.resume(
      jobNameOf(jobName, 'SchedulerService.resume'),
      readOperator(operator, 'SchedulerService.resume'),
    );
    this.reaper.wake();
    return resumed;
  }

  /** See `SchedulerService.enable`. */
  async enable(jobName: string, operator: Operator): Promise<boolean> {
    const enabled = await this.store.setEnabled(
      jobNameOf(jobName, 'SchedulerService.enable'),
      true,
      readOperator(operator, 'SchedulerService.enable'),
    );
    this.reaper.wake();
    return enabled;
  }

  /** See `SchedulerService.disable`. */
  async disable(jobName: string, operator: Operator): Promise<boolean> {
    return this.store.setEnabled(
      jobNameOf(jobName, 'SchedulerService.disable'),
      false,
      readOperator(operator, 'SchedulerService.disable'),
    );
  }
}
