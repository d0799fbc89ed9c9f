import { Injectable } from '@nestjs/common';
import { queryOn } from '../database/query.js';
import { AfterRegistration } from '../database/registration.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import { InvalidOptionsError } from '../errors/errors.js';
import { ScheduleFollower } from '../jobs/schedule-follower.service.js';
import { carryOut, type ReadOperator } from './carry-out.js';
import {
  given,
  instant,
  jobNameOf,
  type Operator,
  readOperationOptions,
  readOperator,
} from '../options/operator-options.js';
import { flag, type OptionTable, text } from '../options/option-rules.js';
import { type FlagAnswer, FlagAnswers } from '../runs/flag-answers.js';
import { ReaperService } from '../runs/reaper.service.js';

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

/** A feature flag: what the table says about it, and who asks for it. */
export interface StoredFlag {
  readonly name: string;
  readonly onInTable: boolean;
  /** Null for one that nobody has set, which is on. */
  readonly changedBy: string | null;
  readonly reason: string | null;
  readonly changedAt: Date | null;
  /** The jobs that name it, as they were declared last. */
  readonly jobs: readonly string[];
}

/** The table of feature flags, which claims read. */
export class FlagStore {
  constructor(private readonly database: SchedulerDatabase) {}

  async set(name: string, on: boolean, { by, reason }: ReadOperator): Promise<void> {
    await carryOut(this.database, 'flag_set_1', [name, on, by, reason], {
      verb: 'set',
      jobName: null,
      what: `flag "${name}"`,
    });
  }

  /** Those that are set and those that jobs name, by name. */
  async list(): Promise<StoredFlag[]> {
    const { coordination, tables } = this.database;
    return queryOn(coordination)<StoredFlag>(
      `select coalesce(flag.name, named.name) as name, coalesce(flag.is_on, true) as "onInTable",
              flag.changed_by as "changedBy", flag.reason, flag.changed_at as "changedAt", coalesce(named.jobs, '{}') as jobs
       from   ${tables.jobFlags} flag
       full   join (select policies ->> 'flag' as name, array_agg(job.name order by job.name) as jobs
                    from   ${tables.jobSchedule} job
                    where  policies ->> 'flag' is not null
                    and    removed_at is null
                    group  by 1) named on named.name = flag.name
       order  by 1`,
    );
  }
}

/** A feature flag: what the table and the application's provider say about it, and who asks for it. */
export interface FlagState extends StoredFlag {
  /** What holds on this instance: the table and the provider, if there is one, have it as on. */
  readonly on: boolean;
  /** Null where the application has no provider. */
  readonly provider: FlagAnswer | null;
}

/**
 * Holds jobs back, one by one or by a feature flag: what comes due meanwhile is recorded as that, and is not missed. What
 * runs goes on.
 */
@Injectable()
@AfterRegistration()
export class Holds {
  constructor(
    private readonly pauses: PauseStore,
    private readonly flagsOf: FlagStore,
    private readonly reaper: ReaperService,
    private readonly follower: ScheduleFollower,
    private readonly answers: FlagAnswers,
  ) {}

  /** See `SchedulerService.pause`. */
  async pause(jobName: string, operator: Operator, options?: PauseOptions): Promise<Pause> {
    const read = readOperator(operator, 'SchedulerService.pause');
    const { until = null } = readOperationOptions(options, PAUSE_OPTIONS, 'SchedulerService.pause');
    return this.pauses.pause(jobNameOf(jobName, 'SchedulerService.pause'), until, read);
  }

  /** See `SchedulerService.resume`. */
  async resume(jobName: string, operator: Operator): Promise<boolean> {
    const resumed = await this.pauses.resume(
      jobNameOf(jobName, 'SchedulerService.resume'),
      readOperator(operator, 'SchedulerService.resume'),
    );
    this.reaper.wake();
    return resumed;
  }

  /** See `SchedulerService.enable`. */
  async enable(jobName: string, operator: Operator): Promise<boolean> {
    const enabled = await this.pauses.setEnabled(
      jobNameOf(jobName, 'SchedulerService.enable'),
      true,
      readOperator(operator, 'SchedulerService.enable'),
    );
    this.reaper.wake();
    return enabled;
  }

  /** See `SchedulerService.disable`. */
  async disable(jobName: string, operator: Operator): Promise<boolean> {
    return this.pauses.setEnabled(
      jobNameOf(jobName, 'SchedulerService.disable'),
      false,
      readOperator(operator, 'SchedulerService.disable'),
    );
  }

  /** See `SchedulerService.setFlag`. */
  async setFlag(name: string, on: boolean, operator: Operator): Promise<void> {
    const verb = 'SchedulerService.setFlag';
    await this.flagsOf.set(
      given(name, text(200), `${verb}: name`),
      given(on, flag, `${verb}: on`),
      readOperator(operator, verb),
    );
    this.reaper.wake();
    this.follower.wake();
  }

  /** See `SchedulerService.flags`. */
  async flags(): Promise<FlagState[]> {
    const stored = await this.flagsOf.list();
    const answers = await this.answers.shown(stored.map(({ name }) => name));
    return stored.map((flag) => {
      const provider = answers.get(flag.name) ?? null;
      return { ...flag, on: flag.onInTable && provider?.on !== false, provider };
    });
  }
}
