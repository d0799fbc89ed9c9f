import { Injectable } from '@nestjs/common';
import { KnownJobs } from '../discovery/known-jobs.js';
import type { RunKey } from '../domain/runs/run.js';
import { FlagAnswers } from '../execution/flag-answers.js';
import { ReaperService } from '../maintenance/reaper.service.js';
import { readOperationOptions } from '../options/operation-options.js';
import { jobNameOf, storable } from '../options/operation-rules.js';
import { oneOf } from '../options/option-rules.js';
import { readOperator, type Operator } from '../options/operator.js';
import type { OptionTable } from '../options/read-options.js';
import { AfterRegistration } from '../runtime/registration.js';
import { ManualRunStore, type ManualOverlap } from '../store/operations/manual-run.store.js';

export interface RunNowOptions {
  /**
   * `forbid`: refused while a run of the job is under way, or one that was asked for waits. `queue`: it waits for them.
   * `allow`: it runs beside them.
   * @default the job's own policy
   */
  readonly overlap?: ManualOverlap;
  /** What the handler gets as `run.data`: anything that JSON can hold. @default what the job has */
  readonly data?: unknown;
}

const RUN_NOW_OPTIONS = {
  overlap: { rule: oneOf<ManualOverlap>('forbid', 'queue', 'allow') },
  data: { rule: storable },
} as const satisfies Record<keyof RunNowOptions, OptionTable[string]>;

/** Runs jobs because somebody asks for it. */
@Injectable()
@AfterRegistration()
export class ManualRuns {
  constructor(
    private readonly store: ManualRunStore,
    private readonly known: KnownJobs,
    private readonly flags: FlagAnswers,
    private readonly reaper: ReaperService,
  ) {}

  /**
   * Adds a run with an identity of its own, whose `trigger` is `manual`: it is none of the schedule's occurrences and takes
   * the place of none. Whichever replica has room starts it, this one at once.
   * @returns its key: the fire time is when it was asked for
   * @throws InvalidOptionsError, UnknownJobError, RenamedJobError; RunRefusedError when the job is held back, or a run is in the way
   */
  async runNow(jobName: string, operator: Operator, options?: RunNowOptions): Promise<RunKey> {
    const verb = 'SchedulerService.runNow';
    const read = readOperator(operator, verb);
    const name = jobNameOf(jobName, verb);
    const { overlap = null, data } = readOperationOptions(options, RUN_NOW_OPTIONS, verb);
    const flag = this.known.get(name)?.definition.flag ?? null;
    const flagOff = (await this.flags.off([flag])).get(flag) ?? null;
    const fireTime = await this.store.add({ jobName: name, overlap, data, flagOff }, read);
    this.reaper.wake();
    return { jobName: name, fireTime };
  }
}
