import { Injectable } from '@nestjs/common';
import { KnownJobs } from '../jobs/known-jobs.js';
import { InvalidOptionsError } from '../errors/scheduler.error.js';
import { UnknownJobError } from '../errors/job.errors.js';
import type { BackfillOptions, CancelOptions } from '../catch-up/backfill-options.js';
import { integer } from '../options/option-rules.js';
import { AfterRegistration } from '../database/registration.js';
import type { BackfillPlan, BackfillProgress } from '../catch-up/backfills.service.js';
import { Backfills } from '../catch-up/backfills.service.js';
import { Cancels } from './cancels.service.js';
import { DeadPages } from './dead-pages.service.js';
import { DeadLetters } from './dead-letters.service.js';
import { Deliveries } from './deliveries.service.js';
import { Explanations } from './explanations.service.js';
import { FireTimes } from './fire-times.service.js';
import { Flags } from './flags.service.js';
import { InDoubt } from './in-doubt.service.js';
import { Inventory } from './inventory.service.js';
import { ManualRuns } from './manual-runs.service.js';
import { Overrides } from './overrides.service.js';
import { Pauses } from './pauses.service.js';
import { Skips } from './skips.service.js';

const numberOfBackfills = integer({ atLeast: 1, atMost: 10_000 });

/**
 * The operator's verbs in one place: what a person, a script or a screen does with jobs. Nothing here runs by itself.
 * Each verb is described where it is made; all by which a person changes something take `{ by, reason? }` and are kept
 * in `job_actions`.
 */
@Injectable()
@AfterRegistration()
export class SchedulerService {
  constructor(
    private readonly jobs: KnownJobs,
    private readonly fireTimes: FireTimes,
    private readonly inventories: Inventory,
    private readonly explanations: Explanations,
    private readonly pauses: Pauses,
    private readonly overrides: Overrides,
    private readonly skips: Skips,
    private readonly switches: Flags,
    private readonly manualRuns: ManualRuns,
    private readonly deliveries: Deliveries,
    private readonly cancels: Cancels,
    private readonly deadLetters: DeadLetters,
    private readonly pages: DeadPages,
    private readonly backfillsOf: Backfills,
    private readonly doubts: InDoubt,
  ) {}

  /** Every job that the database knows, and how it stands. See {@link Inventory.inventory}. */
  inventory(): ReturnType<Inventory['inventory']> {
    return this.inventories.inventory();
  }

  /** What operators did, newest first. See {@link Inventory.actions}. */
  actions(...args: Parameters<Inventory['actions']>): ReturnType<Inventory['actions']> {
    return this.inventories.actions(...args);
  }

  /** What became of a planned time, and why. See {@link Explanations.explain}. */
  explain(...args: Parameters<Explanations['explain']>): ReturnType<Explanations['explain']> {
    return this.explanations.explain(...args);
  }

  /** The fire times that come next. See {@link FireTimes.next}. */
  nextFireTimes(...args: Parameters<FireTimes['next']>): Date[] {
    return this.fireTimes.next(...args);
  }

  /** No start until it is resumed, or until a time. See {@link Pauses.pause}. */
  pause(...args: Parameters<Pauses['pause']>): ReturnType<Pauses['pause']> {
    return this.pauses.pause(...args);
  }

  /** What is due from now on runs. See {@link Pauses.resume}. */
  resume(...args: Parameters<Pauses['resume']>): ReturnType<Pauses['resume']> {
    return this.pauses.resume(...args);
  }

  /** The end of {@link disable}. */
  enable(...args: Parameters<Pauses['enable']>): ReturnType<Pauses['enable']> {
    return this.pauses.enable(...args);
  }

  /** No start until it is enabled. See {@link Pauses.disable}. */
  disable(...args: Parameters<Pauses['disable']>): ReturnType<Pauses['disable']> {
    return this.pauses.disable(...args);
  }

  /** Another expression or zone holds, through deploys. See {@link Overrides.override}. */
  override(...args: Parameters<Overrides['override']>): ReturnType<Overrides['override']> {
    return this.overrides.override(...args);
  }

  /** What the code declares holds again. See {@link Overrides.clearOverride}. */
  clearOverride(...args: Parameters<Overrides['clearOverride']>): ReturnType<Overrides['clearOverride']> {
    return this.overrides.clearOverride(...args);
  }

  /** The next occurrences will not run. See {@link Skips.skipNext}. */
  skipNext(...args: Parameters<Skips['skipNext']>): ReturnType<Skips['skipNext']> {
    return this.skips.skipNext(...args);
  }

  /** Takes {@link skipNext} back. */
  unskip(...args: Parameters<Skips['unskip']>): ReturnType<Skips['unskip']> {
    return this.skips.unskip(...args);
  }

  /** Turns a feature flag on or off. See {@link Flags.setFlag}. */
  setFlag(...args: Parameters<Flags['setFlag']>): ReturnType<Flags['setFlag']> {
    return this.switches.setFlag(...args);
  }

  /** The feature flags that jobs name, or that are set. */
  flags(): ReturnType<Flags['flags']> {
    return this.switches.flags();
  }

  /** A run of its own, now. See {@link ManualRuns.runNow}. */
  runNow(...args: Parameters<ManualRuns['runNow']>): ReturnType<ManualRuns['runNow']> {
    return this.manualRuns.runNow(...args);
  }

  /** Takes in an occurrence that a clock outside delivers; no operator's act. See {@link Deliveries.deliver}. */
  deliver(...args: Parameters<Deliveries['deliver']>): ReturnType<Deliveries['deliver']> {
    return this.deliveries.deliver(...args);
  }

  /** Ends a run before it has done its work. See {@link Cancels.cancel}. */
  cancel(...args: Parameters<Cancels['cancel']>): ReturnType<Cancels['cancel']> {
    return this.cancels.cancel(...args);
  }

  /** Runs an ended run once more, under the same key. See {@link DeadLetters.replay}. */
  replay(...args: Parameters<DeadLetters['replay']>): ReturnType<DeadLetters['replay']> {
    return this.deadLetters.replay(...args);
  }

  /** {@link replay} of many. See {@link DeadLetters.replayAll}. */
  replayAll(...args: Parameters<DeadLetters['replayAll']>): ReturnType<DeadLetters['replayAll']> {
    return this.deadLetters.replayAll(...args);
  }

  /** Ends a run that failed for good. See {@link DeadLetters.discard}. */
  discard(...args: Parameters<DeadLetters['discard']>): ReturnType<DeadLetters['discard']> {
    return this.deadLetters.discard(...args);
  }

  /** {@link discard} of many. See {@link DeadLetters.discardAll}. */
  discardAll(...args: Parameters<DeadLetters['discardAll']>): ReturnType<DeadLetters['discardAll']> {
    return this.deadLetters.discardAll(...args);
  }

  /** Calls outside the database that nobody knows the end of. See {@link InDoubt.inDoubt}. */
  inDoubt(...args: Parameters<InDoubt['inDoubt']>): ReturnType<InDoubt['inDoubt']> {
    return this.doubts.inDoubt(...args);
  }

  /** Says what came of them. See {@link InDoubt.resolveInDoubt}. */
  resolveInDoubt(...args: Parameters<InDoubt['resolveInDoubt']>): ReturnType<InDoubt['resolveInDoubt']> {
    return this.doubts.resolveInDoubt(...args);
  }

  /** Pages that wait for a person. See {@link DeadPages.list}. */
  deadPages(...args: Parameters<DeadPages['list']>): ReturnType<DeadPages['list']> {
    return this.pages.list(...args);
  }

  /** Runs dead pages once more. See {@link DeadPages.replay}. */
  replayPages(...args: Parameters<DeadPages['replay']>): ReturnType<DeadPages['replay']> {
    return this.pages.replay(...args);
  }

  /** Ends dead pages for good. See {@link DeadPages.discard}. */
  discardPages(...args: Parameters<DeadPages['discard']>): ReturnType<DeadPages['discard']> {
    return this.pages.discard(...args);
  }

  /**
   * Runs the past occurrences of a job from `from` to `to`, both included, oldest first, a few at a time; none may
   * still be to come by the database's clock. What has run already is left alone unless `replay` is asked for, and so
   * is what is under way; what was skipped or cancelled never ran. Any replica that knows the job takes part. A live
   * occurrence is never given up for it: see `overlap`.
   * @returns what is going to happen; with `dryRun`, what would
   * @throws UnknownJobError, InvalidBackfillError with every problem; nothing was written then
   */
  async backfill(jobName: string, from: Date, to: Date, options: BackfillOptions = {}): Promise<BackfillPlan> {
    const job = this.jobs.get(jobName)?.definition;
    if (!job) throw new UnknownJobError(jobName, this.jobs.names());
    return this.backfillsOf.ask(job, from, to, options);
  }

  /**
   * The newest backfills, newest first, with their progress.
   * @param limit 1 to 10000
   * @throws InvalidOptionsError
   */
  async backfills(limit = 100): Promise<BackfillProgress[]> {
    const reading = numberOfBackfills(limit);
    if ('problem' in reading) throw new InvalidOptionsError([`backfills: limit: ${reading.problem}`]);
    return this.backfillsOf.list(limit);
  }

  /**
   * Ends a backfill: nothing more of it is started. Its runs that wait become `cancelled`; an occurrence that had a row
   * before, and was not started again, is what it was. Runs under way go on to their end, retries included.
   * @returns the backfill as it is now; one that was over already is not changed
   * @throws UnknownBackfillError
   */
  cancelBackfill(id: string, options: CancelOptions = {}): Promise<BackfillProgress> {
    return this.backfillsOf.cancel(id, options);
  }
}
