import { Injectable } from '@nestjs/common';
import { queryOn } from '../database/query.js';
import { AfterRegistration } from '../database/registration.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import { ScheduleFollower } from '../jobs/schedule-follower.service.js';
import { given, type Operator, readOperator } from '../options/operator-options.js';
import { flag, text } from '../options/option-rules.js';
import { type FlagAnswer, FlagAnswers } from '../runs/flag-answers.js';
import { ReaperService } from '../runs/reaper.service.js';
import { carryOut, type ReadOperator } from './carry-out.js';

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

/** The kill switches in the database, which every claim reads. */
@Injectable()
@AfterRegistration()
export class Flags {
  constructor(
    private readonly store: FlagStore,
    private readonly reaper: ReaperService,
    private readonly follower: ScheduleFollower,
    private readonly answers: FlagAnswers,
  ) {}

  /** See `SchedulerService.setFlag`. */
  async setFlag(name: string, on: boolean, operator: Operator): Promise<void> {
    const verb = 'SchedulerService.setFlag';
    await this.store.set(
      given(name, text(200), `${verb}: name`),
      given(on, flag, `${verb}: on`),
      readOperator(operator, verb),
    );
    this.reaper.wake();
    this.follower.wake();
  }

  /** See `SchedulerService.flags`. */
  async flags(): Promise<FlagState[]> {
    const stored = await this.store.list();
    const answers = await this.answers.shown(stored.map(({ name }) => name));
    return stored.map((flag) => {
      const provider = answers.get(flag.name) ?? null;
      return { ...flag, on: flag.onInTable && provider?.on !== false, provider };
    });
  }
}
