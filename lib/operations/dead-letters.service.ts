import { Injectable } from '@nestjs/common';
import { queryOn } from '../database/query.js';
import { AfterRegistration } from '../database/registration.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import { InvalidOptionsError, refusedByStatus, unknownRun } from '../errors/errors.js';
import { PageKeeper } from '../fan-out/page-keeper.service.js';
import { carryOut } from './carry-out.js';
import { type Operator, readObject, readOperator } from '../options/operator-options.js';
import { expected, flag, integer, oneOf, type OptionTable, type Rule, text } from '../options/option-rules.js';
import type { RunKey, RunStatus } from '../options/run.js';
import { ReaperService } from '../runs/reaper.service.js';

/** Runs that have failed and wait: for a person, or for their next attempt. */
export type WaitingStatus = 'dead' | 'failed' | 'orphaned';

/** Which runs a bulk verb is for. */
export interface DeadLetterFilter {
  readonly jobName?: string;
  /** `failed` and `orphaned` runs wait for their next attempt. @default 'dead' */
  readonly status?: WaitingStatus;
  /** The earliest fire time. */
  readonly from?: Date;
  /** The latest fire time. */
  readonly to?: Date;
  /** A part of the error's name or message, whatever its case. */
  readonly errorContains?: string;
}

/** A filter that was read: what is null is not asked for. */
export interface RunFilter {
  readonly jobName: string | null;
  readonly status: RunStatus;
  /** The earliest fire time. */
  readonly from: Date | null;
  /** The latest fire time. */
  readonly to: Date | null;
  /** A part of the error's name or message, whatever its case. */
  readonly errorContains: string | null;
}

/** How far a bulk verb goes. */
export interface BulkOptions {
  /** How many runs at most; 1 to 1000. @default 100 */
  readonly limit?: number;
  /** True: nothing is changed, and the answer is what would have been. @default false */
  readonly dryRun?: boolean;
}

const instant: Rule<Date> = (given) =>
  given instanceof Date && !Number.isNaN(given.getTime()) ? { value: given } : expected('a Date', given);

const FILTER = {
  jobName: { rule: text(200) },
  status: { rule: oneOf<WaitingStatus>('dead', 'failed', 'orphaned') },
  from: { rule: instant },
  to: { rule: instant },
  errorContains: { rule: text(1_000) },
} as const satisfies Record<keyof DeadLetterFilter, OptionTable[string]>;

const BULK = {
  limit: {
    rule: integer({ atLeast: 1, atMost: 1_000, whyMost: 'each call is one statement; call again for what is left' }),
  },
  dryRun: { rule: flag },
} as const satisfies Record<keyof BulkOptions, OptionTable[string]>;

/**
 * @param verb for people: `SchedulerService.replayAll`
 * @throws InvalidOptionsError with every problem
 */
export function readBulk(
  filter: DeadLetterFilter | undefined,
  options: BulkOptions | undefined,
  verb: string,
): { filter: RunFilter; limit: number; dryRun: boolean } {
  const which = readObject(filter, FILTER);
  const how = readObject(options, BULK);
  const problems = [...which.problems, ...how.problems];
  if (problems.length > 0) throw new InvalidOptionsError(problems.map((problem) => `${verb}: ${problem}`));
  const { jobName = null, status = 'dead', from = null, to = null, errorContains = null } = which.values;
  return {
    filter: { jobName, status, from, to, errorContains },
    limit: how.values.limit ?? 100,
    dryRun: how.values.dryRun ?? false,
  };
}

/** Who, and why. */
export interface Actor {
  readonly by: string;
  readonly reason: string | null;
}

/** What became of one run: how it was, and whether it was changed. */
export interface ChangedRun {
  readonly changed: boolean;
  readonly status: RunStatus;
  /** How many occurrences its row stands for, where that is a gap. */
  readonly gapCount: number | null;
  /** Its job was taken out: nobody would start it. */
  readonly removed: boolean;
}

/** What a filter found. */
export interface FoundRuns {
  /** The earliest fire times first. */
  readonly runs: readonly RunKey[];
  /** How many more there are. */
  readonly left: number;
}

/** What bulk verbs say of themselves in `job_actions.details`. */
type Details = Readonly<Record<string, unknown>>;

type BulkVerb = 'replay' | 'discard';

/**
 * Begins ended runs again, or ends them for good, one by one or many in one statement with a limit. Of two people, or a
 * person and a claim, the first wins; in bulk, a run that somebody else changes right now is passed over.
 */
export class DeadLetterStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /**
   * Makes a run claimable now. What it has of attempts does not count any more, its key and its receipts stay. It
   * leaves a backfill that is active.
   * @param allowed the statuses it may have
   * @returns null when there is no such run
   */
  replay(key: RunKey, allowed: readonly RunStatus[], actor: Actor): Promise<ChangedRun | null> {
    return this.change('replay', key, allowed, actor);
  }

  /** Ends a run that waits for a person, or for its next attempt. @returns null when there is no such run */
  discard(key: RunKey, allowed: readonly RunStatus[], actor: Actor): Promise<ChangedRun | null> {
    return this.change('discard', key, allowed, actor);
  }

  private async change(
    verb: 'replay' | 'discard',
    { jobName, fireTime }: RunKey,
    allowed: readonly RunStatus[],
    { by, reason }: Actor,
  ): Promise<ChangedRun | null> {
    const at = fireTime.toISOString();
    const asked = { verb, jobName, what: `the run of job "${jobName}" of ${at}` };
    const { verdict, facts } = await carryOut<Omit<ChangedRun, 'changed'>>(
      this.database,
      `run_${verb}_1`,
      [jobName, at, allowed, by, reason],
      asked,
    );
    return verdict === 'unknown run' ? null : { ...facts, changed: verdict === 'changed' };
  }

  /** Those that {@link replayAll} or {@link discardAll} would change. */
  async find({ status, ...filter }: RunFilter, limit: number, verb: BulkVerb): Promise<FoundRuns> {
    const { coordination, tables } = this.database;
    const rows = await queryOn(coordination)<RunKey & { total: number }>(
      `select run.job_name as "jobName", run.fire_time as "fireTime", count(*) over ()::integer as total
       from   ${tables.jobRuns} run
       where  run.status = $1
       and    ${tables.qualify('run_matches_1')}(run.job_name, run.fire_time, run.error, $2, $3, $4, $5, $6)
       order  by run.fire_time, run.job_name
       limit  $7`,
      [status, verb, ...parametersOf(filter), limit],
    );
    return {
      runs: rows.map(({ jobName, fireTime }) => ({ jobName, fireTime })),
      left: (rows[0]?.total ?? 0) - rows.length,
    };
  }

  replayAll(filter: RunFilter, limit: number, actor: Actor, details: Details): Promise<FoundRuns> {
    return this.changeAll('replay', filter, limit, actor, details);
  }

  discardAll(filter: RunFilter, limit: number, actor: Actor, details: Details): Promise<FoundRuns> {
    return this.changeAll('discard', filter, limit, actor, details);
  }

  private async changeAll(
    verb: BulkVerb,
    { status, ...filter }: RunFilter,
    limit: number,
    { by, reason }: Actor,
    details: Details,
  ): Promise<FoundRuns> {
    const values = [verb, status, ...parametersOf(filter), limit, by, reason, JSON.stringify(details)];
    const asked = { verb, jobName: null, what: `runs that are ${status}` };
    const { facts } = await carryOut<{ runs: [jobName: string, fireTime: string][]; left: number }>(
      this.database,
      'run_change_all_1',
      values,
      asked,
    );
    return {
      runs: facts.runs.map(([jobName, fireTime]) => ({ jobName, fireTime: new Date(fireTime) })),
      left: facts.left,
    };
  }
}

function parametersOf({ jobName, from, to, errorContains }: Omit<RunFilter, 'status'>): (string | null)[] {
  return [jobName, from?.toISOString() ?? null, to?.toISOString() ?? null, errorContains];
}

/** What a person may let run again, one by one. */
const REPLAYABLE: readonly RunStatus[] = ['dead', 'failed', 'orphaned', 'done', 'skipped', 'cancelled'];

/** What a person may end. */
const DISCARDABLE: readonly RunStatus[] = ['dead', 'failed', 'orphaned'];

/**
 * What a person does about runs that have failed. Each verb is recorded in `job_actions`, in the transaction in which
 * it acts.
 */
@Injectable()
@AfterRegistration()
export class DeadLetters {
  constructor(
    private readonly store: DeadLetterStore,
    private readonly reaper: ReaperService,
    private readonly pages: PageKeeper,
  ) {}

  /** See `SchedulerService.replay`. */
  async replay(jobName: string, fireTime: Date, operator: Operator): Promise<void> {
    const actor = readOperator(operator, 'SchedulerService.replay');
    const key = keyOf(jobName, fireTime, 'SchedulerService.replay');
    const run = await this.store.replay(key, REPLAYABLE, actor);
    if (!run) throw unknownRun(jobName, fireTime);
    if (!run.changed) throw refusedByStatus('replay', key, run.status, whyNotReplayed(run));
    this.wake();
  }

  /** See `SchedulerService.replayAll`. */
  async replayAll(filter: DeadLetterFilter, operator: Operator, options?: BulkOptions): Promise<FoundRuns> {
    const actor = readOperator(operator, 'SchedulerService.replayAll');
    const { filter: which, limit, dryRun } = readBulk(filter, options, 'SchedulerService.replayAll');
    if (dryRun) return this.store.find(which, limit, 'replay');
    const replayed = await this.store.replayAll(which, limit, actor, { filter: which });
    if (replayed.runs.length > 0) this.wake();
    return replayed;
  }

  /** See `SchedulerService.discard`. */
  async discard(jobName: string, fireTime: Date, operator: Operator): Promise<void> {
    const actor = withReason(operator, 'SchedulerService.discard');
    const key = keyOf(jobName, fireTime, 'SchedulerService.discard');
    const run = await this.store.discard(key, DISCARDABLE, actor);
    if (!run) throw unknownRun(jobName, fireTime);
    if (!run.changed)
      throw refusedByStatus('discard', key, run.status, 'only a run that is dead, failed or orphaned can be discarded');
  }

  /** See `SchedulerService.discardAll`. */
  async discardAll(filter: DeadLetterFilter, operator: Operator, options?: BulkOptions): Promise<FoundRuns> {
    const { filter: which, limit, dryRun } = readBulk(filter, options, 'SchedulerService.discardAll');
    if (dryRun) {
      readOperator(operator, 'SchedulerService.discardAll');
      return this.store.find(which, limit, 'discard');
    }
    return this.store.discardAll(which, limit, withReason(operator, 'SchedulerService.discardAll'), { filter: which });
  }

  private wake(): void {
    this.reaper.wake();
    this.pages.wake();
  }
}

function whyNotReplayed({ status, gapCount, removed }: ChangedRun): string {
  if (removed) return 'its job was removed; make it again first';
  if (gapCount !== null && gapCount > 1)
    return `its row stands for ${gapCount} occurrences that were missed, so use backfill`;
  return status === 'queued' ? 'it waits to be started already' : 'cancel it first, or wait for its end';
}

function keyOf(jobName: string, fireTime: Date, verb: string): { jobName: string; fireTime: Date } {
  const problems = [
    ...(typeof jobName === 'string' && jobName !== '' && !jobName.includes('\0')
      ? []
      : ['jobName: expected the name of a job']),
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
