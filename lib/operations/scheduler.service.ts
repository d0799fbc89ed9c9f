import { Injectable } from '@nestjs/common';
import { Backfills, type BackfillOptions, type CancelOptions } from '../catch-up/backfill-verbs.service.js';
import type { BackfillPlan, BackfillProgress } from '../catch-up/backfill-verbs.service.js';
import { integer } from '../options/option-rules.js';
import { AfterRegistration } from '../database/registration.js';
import { type Cancelled, Cancels, ManualRuns, type RunNowOptions } from './run-requests.service.js';
import { DeadPages, type DeadPageFilter, type DeadPageOptions } from './dead-pages.service.js';
import type { ChangedPages, FoundPages } from './dead-pages.service.js';
import { type BulkOptions, type DeadLetterFilter, DeadLetters, type FoundRuns } from './dead-letters.service.js';
import { Deliveries, type DeliverOptions } from './deliveries.service.js';
import { History, type ActionsOptions, type RunsFilter } from './history.service.js';
import type { KeptAction, ListedRun, Replica } from './history.service.js';
import { PlannedTimes, type NextFireTimesOptions } from './planned-times.service.js';
import { Holds, type FlagState, type Pause, type PauseOptions } from './holds.service.js';
import { InDoubt, type InDoubtFilter, type Resolution } from './in-doubt.service.js';
import type { EffectInDoubt, ResolvedEffects } from './in-doubt.service.js';
import { Inventory, type InventoryEntry } from './inventory.service.js';
import { ScheduleEdits, type ScheduleOverride, type SkipOptions } from './schedule-edits.service.js';
import type { Delivered } from './delivery-rules.js';
import type { Explanation } from './explanation-facts.js';
import { given, jobNameOf, type Operator } from '../options/operator-options.js';
import type { RunKey } from '../options/run.js';

const numberOfBackfills = integer({ atLeast: 1, atMost: 10_000 });

/**
 * The operator's verbs in one place: what a person, a script or a screen does with jobs. Nothing here runs by itself.
 * All by which a person changes something take `{ by, reason? }` and are kept in `job_actions`.
 */
@Injectable()
@AfterRegistration()
export class SchedulerService {
  constructor(
    private readonly inventories: Inventory,
    private readonly history: History,
    private readonly planned: PlannedTimes,
    private readonly holds: Holds,
    private readonly edits: ScheduleEdits,
    private readonly manualRuns: ManualRuns,
    private readonly deliveries: Deliveries,
    private readonly cancels: Cancels,
    private readonly deadLetters: DeadLetters,
    private readonly pages: DeadPages,
    private readonly backfillsOf: Backfills,
    private readonly doubts: InDoubt,
  ) {}

  /** Every job that the database knows, by name: also those of other versions, and those that are gone. */
  inventory(): Promise<InventoryEntry[]> {
    return this.inventories.inventory();
  }

  /** What ran, what did not, and why: the newest fire times first. @throws InvalidOptionsError */
  runs(filter?: RunsFilter): Promise<ListedRun[]> {
    return this.history.runs(filter);
  }

  /** The processes that take part, and those that did lately: the youngest first. */
  replicas(): Promise<Replica[]> {
    return this.history.replicas();
  }

  /** What operators did, the newest first. @throws InvalidOptionsError */
  actions(options?: ActionsOptions): Promise<KeptAction[]> {
    return this.history.actions(options);
  }

  /**
   * How many runners started for that planned time; what blocked the second start; whether it overlapped others; what
   * to do to rerun it; and why it did not run, when it did not. By the schedule as it is now. A job or a time that
   * nobody knows is an answer, too.
   * @throws InvalidOptionsError
   */
  explain(jobName: string, fireTime: Date): Promise<Explanation> {
    return this.planned.explain(jobName, fireTime);
  }

  /** The next fire times by the schedule alone, of a paused job, too. @throws NotFoundError, InvalidOptionsError */
  nextFireTimes(jobName: string, options?: NextFireTimesOptions): Date[] {
    return this.planned.next(jobName, options);
  }

  /**
   * Nothing of the job starts from now on, on any replica.
   * @throws InvalidOptionsError, NotFoundError, OperationRefusedError
   */
  pause(jobName: string, operator: Operator, options?: PauseOptions): Promise<Pause> {
    return this.holds.pause(jobName, operator, options);
  }

  /** The job goes on with what is due from now on. @returns false when it was not paused. @throws as {@link pause} */
  resume(jobName: string, operator: Operator): Promise<boolean> {
    return this.holds.resume(jobName, operator);
  }

  /** @returns false when it was enabled already */
  enable(jobName: string, operator: Operator): Promise<boolean> {
    return this.holds.enable(jobName, operator);
  }

  /** Like a pause that has no end. @returns false when it was disabled already */
  disable(jobName: string, operator: Operator): Promise<boolean> {
    return this.holds.disable(jobName, operator);
  }

  /**
   * The schedule holds from now on, on every replica as soon as it looks: it is woken up, or does within one
   * `pollInterval`. What the job leaves out (`exclude`, `startAt`, `endAt`) stays.
   * @throws InvalidOptionsError, InvalidScheduleError, NotFoundError; OperationRefusedError also for a job made at run
   * time, which is changed with `JobRegistry.update`
   */
  override(jobName: string, schedule: ScheduleOverride, operator: Operator): Promise<void> {
    return this.edits.override(jobName, schedule, operator);
  }

  /**
   * The schedule that the code declares holds again, as soon as an instance that declares it looks: it is woken up, or
   * does within one `pollInterval`.
   * @returns false when there was no override
   * @throws NotFoundError, OperationRefusedError
   */
  clearOverride(jobName: string, operator: Operator): Promise<boolean> {
    return this.edits.clearOverride(jobName, operator);
  }

  /**
   * The next occurrences do not run: each has its row from now on, `skipped by …`. Asked again before they have passed,
   * it names the same ones.
   * @returns their fire times: fewer when the schedule ends
   * @throws InvalidOptionsError, NotFoundError, OperationRefusedError
   */
  skipNext(jobName: string, operator: Operator, options?: SkipOptions): Promise<Date[]> {
    return this.edits.skipNext(jobName, operator, options);
  }

  /**
   * An occurrence that was to be skipped runs after all.
   * @throws InvalidOptionsError; OperationRefusedError when it was not, or its time has come
   */
  unskip(jobName: string, fireTime: Date, operator: Operator): Promise<void> {
    return this.edits.unskip(jobName, fireTime, operator);
  }

  /** Off: no job that names the flag starts from now on, on any replica. @throws InvalidOptionsError */
  setFlag(name: string, on: boolean, operator: Operator): Promise<void> {
    return this.holds.setFlag(name, on, operator);
  }

  /**
   * Those that are set and those that jobs name, by name. The provider is asked about those that it was not asked about
   * within ten seconds, and waited for a second at most.
   */
  flags(): Promise<FlagState[]> {
    return this.holds.flags();
  }

  /**
   * Adds a run with an identity of its own, whose `trigger` is `manual`: it is none of the schedule's occurrences and
   * takes the place of none. Whichever replica has room starts it, this one at once.
   * @returns its key: the fire time is when it was asked for
   * @throws InvalidOptionsError, NotFoundError; OperationRefusedError also when the job is held, or a run is in the way
   */
  runNow(jobName: string, operator: Operator, options?: RunNowOptions): Promise<RunKey> {
    return this.manualRuns.runNow(jobName, operator, options);
  }

  /**
   * Delivers one occurrence, as often as you like: it runs once. Whichever replica has room starts it, this one at
   * once. Its decision is that of the ticker: what is paused, turned off, in the way of another run or too late gets a
   * row that says so. Also for a job with `trigger: 'schedule'`: whoever is first, the ticker or the delivery, decides.
   * @returns what there is of it now; `duplicate` when it was decided before
   * @throws InvalidOptionsError, NotFoundError; DeliveryRefusedError when the schedule has no such time, or it is
   * still to come
   */
  deliver(jobName: string, options?: DeliverOptions): Promise<Delivered> {
    return this.deliveries.deliver(jobName, options);
  }

  /**
   * A run that waits is cancelled at once; the handler of one that runs is told to stop, wherever it runs, with a
   * `CancelledError` as its signal's reason. It keeps its lease until it has ended. Of one that was fanned out, pages
   * that wait are cancelled, and the handlers of the others are told; it is cancelled when the last of those has ended.
   * @throws InvalidOptionsError; OperationRefusedError when there is no such run, or it has ended
   */
  cancel(jobName: string, fireTime: Date, operator: Operator): Promise<Cancelled> {
    return this.cancels.cancel(jobName, fireTime, operator);
  }

  /**
   * Lets one run begin again, with all the attempts its job allows: the same occurrence, so that receipts hold what was
   * done. It waits like any waiting run: for its turn, and for the end of a pause. A done, skipped or cancelled run may
   * be replayed as well. One that died of its pages begins again with those not done; its handler is not called.
   * @throws NotFoundError when there is none
   * @throws OperationRefusedError when it is running or queued, stands for a gap of several, or its job was removed
   */
  replay(jobName: string, fireTime: Date, operator: Operator): Promise<void> {
    return this.deadLetters.replay(jobName, fireTime, operator);
  }

  /**
   * Lets runs begin again, as by {@link replay}; the earliest fire times first.
   * @returns those that do, or with `dryRun` would, and how many are left
   */
  replayAll(filter: DeadLetterFilter, operator: Operator, options?: BulkOptions): Promise<FoundRuns> {
    return this.deadLetters.replayAll(filter, operator, options);
  }

  /**
   * Ends a dead run, or one that waits for its next attempt: it is cancelled, with the operator's reason, and needs
   * nobody.
   * @throws NotFoundError when there is none, OperationRefusedError when it is in another state
   */
  discard(jobName: string, fireTime: Date, operator: Operator): Promise<void> {
    return this.deadLetters.discard(jobName, fireTime, operator);
  }

  /**
   * Ends runs, as by {@link discard}; the earliest fire times first. With `dryRun` no reason is needed.
   * @returns those that are ended, or with `dryRun` would be, and how many are left
   */
  discardAll(filter: DeadLetterFilter, operator: Operator, options?: BulkOptions): Promise<FoundRuns> {
    return this.deadLetters.discardAll(filter, operator, options);
  }

  /**
   * The calls that wait for a person, the oldest first: parked ones, and those whose run has ended. Ask the receiver
   * for the idempotency key, then say what came of it: {@link resolveInDoubt}.
   * @throws InvalidOptionsError
   */
  inDoubt(filter?: InDoubtFilter): Promise<EffectInDoubt[]> {
    return this.doubts.inDoubt(filter);
  }

  /**
   * Says what came of calls in doubt. `done`: they happened, and no attempt makes them again; with the answer, if it is
   * known. `undone`: they did not, and the next attempt makes them: `replay` the run, if it has ended. Kept in
   * `job_actions`.
   * @param filter at least one of its fields but `limit`
   * @returns those that were decided now, and how many are left; none when the filter finds nothing in doubt
   * @throws InvalidOptionsError
   */
  resolveInDoubt(filter: InDoubtFilter, as: 'done' | 'undone', resolution: Resolution): Promise<ResolvedEffects> {
    return this.doubts.resolveInDoubt(filter, as, resolution);
  }

  /** Pages that wait for a person, the earliest fire times first. @throws InvalidOptionsError */
  deadPages(filter?: DeadPageFilter, options?: Pick<DeadPageOptions, 'limit'>): Promise<FoundPages> {
    return this.pages.list(filter, options);
  }

  /**
   * Lets dead pages begin again, with all their attempts and the same receipts; those that are done are left alone.
   * Their occurrence waits like any waiting run: for its turn, and for the end of a pause. Then it is under way, and
   * ends with the last of them.
   * @throws InvalidOptionsError
   */
  replayPages(filter: DeadPageFilter, operator: Operator, options?: DeadPageOptions): Promise<ChangedPages> {
    return this.pages.replay(filter, operator, options);
  }

  /**
   * Ends dead pages for good: they are cancelled, with the operator's reason. When none is left of a dead occurrence,
   * that is cancelled, too. With `dryRun` no reason is needed.
   * @throws InvalidOptionsError
   */
  discardPages(filter: DeadPageFilter, operator: Operator, options?: DeadPageOptions): Promise<ChangedPages> {
    return this.pages.discard(filter, operator, options);
  }

  /**
   * Runs the past occurrences of a job from `from` to `to`, both included, oldest first, a few at a time; none may
   * still be to come by the database's clock. What has run already is left alone unless `replay` is asked for, and so
   * is what is under way; what was skipped or cancelled never ran. Any replica that knows the job takes part. A live
   * occurrence is never given up for it: see `overlap`.
   * @returns what is going to happen; with `dryRun`, what would
   * @throws InvalidOptionsError with every problem, NotFoundError, OperationRefusedError; nothing was written then
   */
  async backfill(jobName: string, from: Date, to: Date, options: BackfillOptions = {}): Promise<BackfillPlan> {
    return this.backfillsOf.ask(jobNameOf(jobName, 'SchedulerService.backfill'), from, to, options);
  }

  /**
   * The newest backfills, newest first, with their progress.
   * @param limit 1 to 10000
   * @throws InvalidOptionsError
   */
  async backfills(limit = 100): Promise<BackfillProgress[]> {
    return this.backfillsOf.list(given(limit, numberOfBackfills, 'backfills: limit'));
  }

  /**
   * Ends a backfill: nothing more of it is started. Its runs that wait become `cancelled`; an occurrence that had a row
   * before, and was not started again, is what it was. Runs under way go on to their end, retries included.
   * @returns the backfill as it is now; one that was over already is not changed
   * @throws NotFoundError
   */
  cancelBackfill(id: string, options: CancelOptions = {}): Promise<BackfillProgress> {
    return this.backfillsOf.cancel(id, options);
  }
}
