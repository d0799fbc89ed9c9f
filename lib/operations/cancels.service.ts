import { Injectable } from '@nestjs/common';
import { AfterRegistration } from '../database/registration.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import { refusedByState } from '../errors/errors.js';
import { PageKeeper } from '../fan-out/page-keeper.service.js';
import { ScheduleFollower } from '../jobs/schedule-follower.service.js';
import { given, instant, jobNameOf, type Operator, readOperator } from '../options/operator-options.js';
import type { RunKey, RunStatus } from '../options/run.js';
import { carryOut, type ReadOperator } from './carry-out.js';

/** What became of a run that somebody cancelled. */
export type Cancelled =
  /** It waited, and is over. */
  | 'cancelled'
  /** It runs: its handler is told to stop as soon as its instance looks, and the run ends as cancelled when it has. */
  | 'requested';

/** Ends runs that wait, and asks for the end of runs that are under way. */
export class CancelStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /** @throws OperationRefusedError when there is no such run, or it has ended */
  async cancel({ jobName, fireTime }: RunKey, { by, reason }: ReadOperator): Promise<Cancelled> {
    const at = fireTime.toISOString();
    const asked = { verb: 'cancel', jobName, what: `the run of job "${jobName}" of ${at}` };
    const { verdict, facts } = await carryOut<{ status: RunStatus } | null>(
      this.database,
      'run_cancel_1',
      [jobName, at, by, reason],
      asked,
    );
    if (verdict === 'cancelled' || verdict === 'requested') return verdict;
    throw refusedByState(
      jobName,
      `cancel the run of ${at}`,
      facts ? `it is ${facts.status} already` : 'there is no such run',
    );
  }
}

/** Ends runs before they have done their work. */
@Injectable()
@AfterRegistration()
export class Cancels {
  constructor(
    private readonly store: CancelStore,
    private readonly follower: ScheduleFollower,
    private readonly pages: PageKeeper,
  ) {}

  /** See `SchedulerService.cancel`. */
  async cancel(jobName: string, fireTime: Date, operator: Operator): Promise<Cancelled> {
    const verb = 'SchedulerService.cancel';
    const read = readOperator(operator, verb);
    const cancelled = await this.store.cancel(
      { jobName: jobNameOf(jobName, verb), fireTime: given(fireTime, instant, `${verb}: fireTime`) },
      read,
    );
    this.follower.wake();
    this.pages.wake();
    return cancelled;
  }
}
