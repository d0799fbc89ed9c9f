import { Injectable } from '@nestjs/common';
import { ReaperService } from '../maintenance/reaper.service.js';
import { given } from '../options/operation-rules.js';
import { flag, text } from '../options/option-rules.js';
import { readOperator, type Operator } from '../options/operator.js';
import { ScheduleFollower } from '../scheduling/schedule-follower.service.js';
import { FlagStore, type FlagState } from '../store/flag.store.js';

/** The kill switches in the database, which every claim reads. */
@Injectable()
export class Flags {
  constructor(
    private readonly store: FlagStore,
    private readonly reaper: ReaperService,
    private readonly follower: ScheduleFollower,
  ) {}

  /** Off: no job that names the flag starts from now on, on any replica. @throws InvalidOptionsError */
  async setFlag(name: string, on: boolean, operator: Operator): Promise<void> {
    const verb = 'SchedulerService.setFlag';
    await this.store.set(given(name, text(200), `${verb}: name`), given(on, flag, `${verb}: on`), readOperator(operator, verb));
    this.reaper.wake();
    this.follower.wake();
  }

  /** Those that are set and those that jobs name, by name. */
  flags(): Promise<FlagState[]> {
    return this.store.list();
  }
}
