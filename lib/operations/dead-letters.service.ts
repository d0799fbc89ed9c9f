import { Injectable } from '@nestjs/common';
import type { RunStatus } from '../domain/runs/run.js';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import { RunStateError } from '../errors/run-state.error.js';
import { UnknownRunError } from '../errors/unknown-run.error.js';
import { PageKeeper } from '../maintenance/page-keeper.service.js';
import { ReaperService } from '../maintenance/reaper.service.js';
import { readBulk, type BulkOptions, type DeadLetterFilter } from '../options/dead-letter-filter.js';
import { readOperator, type Operator } from '../options/operator.js';
import { AfterRegistration } from '../runtime/registration.js';
import { DeadLetterBulkStore, type FoundRuns } from '../store/operations/dead-letter-bulk.store.js';
import { DeadLetterStore, type ChangedRun } from '../store/operations/dead-letter.store.js';

/** What a person may let run again, one by one. */
const REPLAYABLE: readonly RunStatus[] = ['dead', 'failed', 'orphaned', 'done', 'skipped', 'cancelled'];

/** What a person may end. */
const DISCARDABLE: readonly RunStatus[] = ['dead', 'failed', 'orphaned'];

/** What a person does about runs that have failed. Each verb is recorded in `job_actions`, in the transaction in which it acts. */
@Injectable()
@AfterRegistration()
export class DeadLetters {
  constructor(
    private readonly store: DeadLetterStore,
    private readonly bulk: DeadLetterBulkStore,
    private readonly reaper: ReaperService,
    private readonly pages: PageKeeper,
  ) {}

  /**
   * Lets one run begin again, with all the attempts its job allows: the same occurrence, so that receipts hold what was done.
   * It waits like any waiting run: for its turn, and for the end of a pause. A done, skipped or cancelled run may be replayed
   * as well.
   * One that died of its pages begins again with those that are not done; its handler is not called.
   * @throws UnknownRunError when there is none
   * @throws RunStateError when it is running or queued, when its row stands for a gap of several occurrences, or when its job was removed
   */
  async replay(jobName: string, fireTime: Date, operator: Operator): Promise<void> {
    const actor = readOperator(operator, 'SchedulerService.replay');
    const key = keyOf(jobName, fireTime, 'SchedulerService.replay');
    const run = await this.store.replay(key, REPLAYABLE, actor);
    if (!run) throw new UnknownRunError(jobName, fireTime);
    if (!run.changed) throw new RunStateError('replay', key, run.status, whyNotReplayed(run));
    this.wake();
  }

  /**
   * Lets runs begin again, as by {@link replay}; the earliest fire times first.
   * @returns those that do, or with `dryRun` would, and how many are left
   */
  async replayAll(filter: DeadLetterFilter, operator: Operator, options?: BulkOptions): Promise<FoundRuns> {
    const actor = readOperator(operator, 'SchedulerService.replayAll');
    const { filter: which, limit, dryRun } = readBulk(filter, options, 'SchedulerService.replayAll');
    if (dryRun) return this.bulk.find(which, limit, 'replay');
    const replayed = await this.bulk.replayAll(which, limit, actor, { filter: which });
    if (replayed.runs.length > 0) this.wake();
    return replayed;
  }

  /**
   * Ends a dead run, or one that waits for its next attempt: it is cancelled, with the operator's reason, and needs nobody.
   * @throws UnknownRunError when there is none, RunStateError when it is in another state
   */
  async discard(jobName: string, fireTime: Date, operator: Operator): Promise<void> {
    const actor = withReason(operator, 'SchedulerService.discard');
    const key = keyOf(jobName, fireTime, 'SchedulerService.discard');
    const run = await this.store.discard(key, DISCARDABLE, actor);
    if (!run) throw new UnknownRunError(jobName, fireTime);
    if (!run.changed) throw new RunStateError('discard', key, run.status, 'only a run that is dead, failed or orphaned can be discarded');
  }

  /**
   * Ends runs, as by {@link discard}; the earliest fire times first. With `dryRun` no reason is needed.
   * @returns those that are ended, or with `dryRun` would be, and how many are left
   */
  async discardAll(filter: DeadLetterFilter, operator: Operator, options?: BulkOptions): Promise<FoundRuns> {
    const { filter: which, limit, dryRun } = readBulk(filter, options, 'SchedulerService.discardAll');
    if (dryRun) {
      readOperator(operator, 'SchedulerService.discardAll');
      return this.bulk.find(which, limit, 'discard');
    }
    return this.bulk.discardAll(which, limit, withReason(operator, 'SchedulerService.discardAll'), { filter: which });
  }

  private wake(): void {
    this.reaper.wake();
    this.pages.wake();
  }
}

function whyNotReplayed({ status, gapCount, removed }: ChangedRun): string {
  if (removed) return 'its job was removed; make it again first';
  if (gapCount !== null && gapCount > 1) return `its row stands for ${gapCount} occurrences that were missed, so use backfill`;
  return status === 'queued' ? 'it waits to be started already' : 'cancel it first, or wait for its end';
}

function keyOf(jobName: string, fireTime: Date, verb: string): { jobName: string; fireTime: Date } {
  const problems = [
    ...(typeof jobName === 'string' && jobName !== '' && !jobName.includes('\0') ? [] : ['jobName: expected the name of a job']),
    ...(fireTime instanceof Date && !Number.isNaN(fireTime.getTime()) ? [] : ['fireTime: expected a Date']),
  ];
  if (problems.length > 0) throw new InvalidOptionsError(problems.map((problem) => `${verb}: ${problem}`));
  return { jobName, fireTime };
}

/** What is thrown away is thrown away for a reason: its row keeps it. */
function withReason(operator: Operator, verb: string): { by: string; reason: string } {
  const { by, reason } = readOperator(operator, verb);
  if (reason === null) throw new InvalidOptionsError([`${verb}: reason: say why, as in { by: '${by}', reason: '…' }`]);
  return { by, reason };
}
