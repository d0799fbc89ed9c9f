import { Injectable } from '@nestjs/common';
import { given, instant, jobNameOf } from '../options/operation-rules.js';
import { readOperator, type Operator } from '../options/operator.js';
import { PageKeeper } from '../maintenance/page-keeper.service.js';
import { AfterRegistration } from '../runtime/registration.js';
import { ScheduleFollower } from '../scheduling/schedule-follower.service.js';
import { CancelStore, type Cancelled } from '../store/operations/cancel.store.js';

/** Ends runs before they have done their work. */
@Injectable()
@AfterRegistration()
export class Cancels {
  constructor(
    private readonly store: CancelStore,
    private readonly follower: ScheduleFollower,
    private readonly pages: PageKeeper,
  ) {}

  /**
   * A run that waits is cancelled at once; the handler of one that runs is told to stop, wherever it runs, with a
   * `CancelledError` as its signal's reason. It keeps its lease until it has ended. Of one that was fanned out, pages that wait are
   * cancelled, and the handlers of the others are told; it is cancelled when the last of those has ended.
   * @throws InvalidOptionsError; RunRefusedError when there is no such run, or it has ended
   */
  async cancel(jobName: string, fireTime: Date, operator: Operator): Promise<Cancelled> {
    const verb = 'SchedulerService.cancel';
    const read = readOperator(operator, verb);
    const cancelled = await this.store.cancel({ jobName: jobNameOf(jobName, verb), fireTime: given(fireTime, instant, `${verb}: fireTime`) }, read);
    this.follower.wake();
    this.pages.wake();
    return cancelled;
  }
}
