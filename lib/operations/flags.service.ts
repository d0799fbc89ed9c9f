import { Injectable } from '@nestjs/common';
import { FlagAnswers, type FlagAnswer } from '../execution/flag-answers.js';
import { ReaperService } from '../maintenance/reaper.service.js';
import { given } from '../options/operation-rules.js';
import { flag, text } from '../options/option-rules.js';
import { readOperator, type Operator } from '../options/operator.js';
import { AfterRegistration } from '../runtime/registration.js';
import { ScheduleFollower } from '../scheduling/schedule-follower.service.js';
import { FlagStore, type StoredFlag } from '../store/jobs/flag.store.js';

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

  /** Off: no job that names the flag starts from now on, on any replica. @throws InvalidOptionsError */
  async setFlag(name: string, on: boolean, operator: Operator): Promise<void> {
    const verb = 'SchedulerService.setFlag';
    await this.store.set(given(name, text(200), `${verb}: name`), given(on, flag, `${verb}: on`), readOperator(operator, verb));
    this.reaper.wake();
    this.follower.wake();
  }

  /**
   * Those that are set and those that jobs name, by name. The provider is asked about those that it was not asked about within
   * ten seconds, and waited for a second at most.
   */
  async flags(): Promise<FlagState[]> {
    const stored = await this.store.list();
    const answers = await this.answers.shown(stored.map(({ name }) => name));
    return stored.map((flag) => {
      const provider = answers.get(flag.name) ?? null;
      return { ...flag, on: flag.onInTable && provider?.on !== false, provider };
    });
  }
}
