import { Injectable } from '@nestjs/common';
import type { PartitionStore } from '../database/partition.store.js';
import { queryOn } from '../database/query.js';
import { AfterRegistration } from '../database/registration.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import { refusedByState } from '../errors/errors.js';
import { PageKeeper } from '../fan-out/page-keeper.service.js';
import { KnownJobs } from '../jobs/known-jobs.js';
import { ScheduleFollower } from '../jobs/schedule-follower.service.js';
import { carryOut, type ReadOperator } from './carry-out.js';
import {
  given,
  instant,
  jobNameOf,
  type Operator,
  readOperationOptions,
  readOperator,
  storable,
} from '../options/operator-options.js';
import { oneOf, type OptionTable } from '../options/option-rules.js';
import type { RunKey, RunStatus } from '../options/run.js';
import { FlagAnswers } from '../runs/flag-answers.js';
import { ReaperService } from '../runs/reaper.service.js';

/** What a person may say about a run that is in the way: refuse this one, wait for it, or run beside it. */
export type ManualOverlap = 'forbid' | 'queue' | 'allow';

/** A run that somebody asks for. */
export interface ManualRun {
  readonly jobName: string;
  /** Null: the job's own policy. */
  readonly overlap: ManualOverlap | null;
  /** For its handler; undefined for what the job has. */
  readonly data: unknown;
  /** Why its flag is off, whatever the table says; null when it is not. */
  readonly flagOff: string | null;
}

/** Milliseconds in which a free place is looked for. */
const PLACES = 5_000;

interface Facts {
  readonly flag: string;
  readonly instanceId: string;
  readonly fireTime: string;
}

/** Why a run is refused, by verdict. */
const WHY: Readonly<Record<string, (facts: Facts, run: ManualRun) => string>> = {
  disabled: () => 'it is disabled; enable it first',
  paused: () => 'it is paused; resume it first',
  'flag off': ({ flag }) => `its flag ${flag} is off`,
  'switched off': (_, { flagOff }) => flagOff!,
  running: ({ instanceId }) =>
    `a run of it is under way on ${instanceId}, and its overlap is forbidden; wait, cancel that run, or ask with overlap: 'queue'`,
  waiting: ({ fireTime }) => `one that was asked for at ${new Date(fireTime).toISOString()} waits already`,
  full: () => `it was asked for ${PLACES} times within seconds`,
};

/**
 * Adds runs of their own identity: their fire time is when they were asked for, and has a part of a second, which no
 * occurrence has. Whether one may run now is judged behind the lock of its job, behind which claims are made: of two
 * clicks the second one sees the first one's row.
 */
export class ManualRunStore {
  constructor(
    private readonly database: SchedulerDatabase,
    private readonly partitions: PartitionStore,
  ) {}

  /**
   * @returns its fire time
   * @throws NotFoundError; OperationRefusedError also when the job is held back, or a run is in the way
   */
  async add(run: ManualRun, { by, reason }: ReadOperator): Promise<Date> {
    const { jobName, overlap, data, flagOff } = run;
    const details = { ...(overlap && { overlap }), ...(data !== undefined && { data }) };
    const values = [
      jobName,
      overlap,
      data === undefined ? null : JSON.stringify(data),
      flagOff,
      by,
      reason,
      JSON.stringify(details),
    ];
    const { verdict, facts } = await this.partitions.makingSure(
      () => this.now(),
      () => carryOut<Facts>(this.database, 'run_now_1', values, { verb: 'run', jobName }),
    );
    if (verdict !== 'added') throw refusedByState(jobName, 'run now', WHY[verdict]!(facts, run));
    return new Date(facts.fireTime);
  }

  /** From when to when its place may be. */
  private async now(): Promise<Date[]> {
    const [clock] = await queryOn(this.database.coordination)<{ now: Date }>('select clock_timestamp() as now');
    return [clock!.now, new Date(clock!.now.getTime() + PLACES)];
  }
}

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

  /** See `SchedulerService.runNow`. */
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
