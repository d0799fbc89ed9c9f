import type { OverlapPolicy } from '../options/job-definition.js';
import { readObject } from '../options/operator-options.js';
import { flag, integer, oneOf, text, defaultsOf, type OptionTable, type Values } from '../options/option-rules.js';
import { Injectable } from '@nestjs/common';
import { PartitionStore } from '../database/partition.store.js';
import { AfterRegistration } from '../database/registration.js';
import { InvalidOptionsError, NotFoundError, SetupError } from '../errors/errors.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { backfillRange, type Standing } from './backfill-plan.js';
import { BackfillCancelStore, type BackfillCounts, type BackfillRow, BackfillStore } from './backfill.repository.js';

/** Whether runs of a backfill may go on beside others of their job. */
type BackfillOverlap = 'forbid' | 'allow';

/** How a backfill is done. */
export interface BackfillOptions {
  /** Only say what would happen, and write nothing. @default false */
  dryRun?: boolean;
  /** How many of its runs go on at a time, over all replicas. More than 1 needs `overlap: 'allow'`. @default 1 */
  maxConcurrent?: number;
  /**
   * `allow`: its runs may go on beside each other and beside the job's own, and those beside them. `forbid`: one after
   * the other, each started when nothing else of the job runs. Where the job itself forbids overlap they are not
   * started when an occurrence is due, or nearer than they are likely to take; one that comes due all the same waits
   * for the run in hand.
   * @default the job's own policy
   */
  overlap?: BackfillOverlap;
  /** Also run what has run already, with the same receipts and idempotency keys. @default false */
  replay?: boolean;
  /** The most occurrences the range may have. @default 10000 */
  atMost?: number;
  /** Who asks, for those who look at it later. */
  by?: string;
  /** The same as `by`. */
  requestedBy?: string;
  /** Why. */
  reason?: string;
}

/** Who ends a backfill early, and why. */
export interface CancelOptions {
  by?: string;
  reason?: string;
}

const BACKFILL_OPTIONS = {
  dryRun: { rule: flag, byDefault: false },
  maxConcurrent: { rule: integer({ atLeast: 1, atMost: 1_000 }), byDefault: 1 },
  overlap: { rule: oneOf<BackfillOverlap>('forbid', 'allow') },
  replay: { rule: flag, byDefault: false },
  atMost: { rule: integer({ atLeast: 1 }), byDefault: 10_000 },
  by: { rule: text(200) },
  requestedBy: { rule: text(200) },
  reason: { rule: text(1_000) },
} as const satisfies Record<keyof BackfillOptions, OptionTable[string]>;

const CANCEL_OPTIONS = { by: { rule: text(200) }, reason: { rule: text(1_000) } } as const satisfies Record<
  keyof CancelOptions,
  OptionTable[string]
>;

/** A backfill's options, every default filled in. */
type ResolvedBackfillOptions = Required<Omit<Values<typeof BACKFILL_OPTIONS>, 'by' | 'requestedBy' | 'reason'>> & {
  readonly requestedBy: string | null;
  readonly reason: string | null;
};

/** @param overlap the job's own policy */
function readBackfillOptions(
  given: unknown,
  overlap: OverlapPolicy,
): { options: ResolvedBackfillOptions; problems: readonly string[] } {
  const {
    values: { by, ...values },
    problems: unread,
  } = readObject(given, BACKFILL_OPTIONS);
  const isTwice = by !== undefined && values.requestedBy !== undefined && by !== values.requestedBy;
  const problems = isTwice ? [...unread, 'by, requestedBy: they are the same, and differ here: give one.'] : unread;
  const ofJob: BackfillOverlap = overlap === 'allow' ? 'allow' : 'forbid';
  const options = { ...defaultsOf(BACKFILL_OPTIONS), overlap: ofJob, requestedBy: by ?? null, reason: null, ...values };
  if (options.maxConcurrent === 1 || options.overlap === 'allow') return { options, problems };
  const forbids = values.overlap === undefined ? 'the job forbids overlap' : `overlap is 'forbid'`;
  return {
    options,
    problems: [
      ...problems,
      `maxConcurrent: ${options.maxConcurrent} at a time need overlap: 'allow', for ${forbids} and its runs go one after the other.`,
    ],
  };
}

/** Who cancels, and why; null where it was not said. */
function readCancelOptions(given: unknown): {
  by: string | null;
  reason: string | null;
  problems: readonly string[];
} {
  const { values, problems } = readObject(given, CANCEL_OPTIONS);
  return { by: values.by ?? null, reason: values.reason ?? null, problems };
}

/** What a backfill is going to do, as its range stands when it is asked for. */
export interface BackfillPlan {
  /** Null for a dry run. */
  readonly id: string | null;
  readonly jobName: string;
  /** Both ends belong to the range. */
  readonly from: Date;
  readonly to: Date;
  readonly maxConcurrent: number;
  readonly overlap: OverlapPolicy;
  readonly replay: boolean;
  readonly occurrences: number;
  /**
   * A forecast: an occurrence that the schedule or a person starts meanwhile is left alone then. With `replay`, what is
   * run again is counted here as well as in `alreadyRan`.
   */
  readonly willRun: number;
  /**
   * Done, dead, or cancelled after a start: left alone, or among those that will run when they are replayed. Also under
   * a former name of the job: those are left alone in any case.
   */
  readonly alreadyRan: number;
  /** Queued, running or waiting for another attempt: left alone. */
  readonly underWay: number;
}

/** A backfill and how far it has come. */
export interface BackfillProgress extends BackfillCounts {
  readonly id: string;
  readonly jobName: string;
  readonly from: Date;
  readonly to: Date;
  readonly state: 'active' | 'finished' | 'cancelled';
  readonly maxConcurrent: number;
  readonly overlap: OverlapPolicy;
  readonly replay: boolean;
  /** Occurrences in the range when it was asked for. */
  readonly total: number;
  /** Passed over: they had run, or somebody else had them in hand. */
  readonly leftAlone: number;
  /** Still to be looked at; none once it is finished or cancelled. */
  readonly left: number;
  /** Of a cancelled one: not looked at, and not going to be. */
  readonly notReached: number;
  readonly requestedBy: string | null;
  readonly reason: string | null;
  readonly createdAt: Date;
  readonly finishedAt: Date | null;
  readonly cancelledAt: Date | null;
  readonly cancelledBy: string | null;
  readonly cancelledReason: string | null;
}

/** The expression of a job may have changed since the occurrences were counted: nothing below zero is said. */
function progressOf({ beside, fedUntil: _, fed, ...row }: BackfillRow): BackfillProgress {
  const left = row.finishedAt ? 0 : Math.max(0, row.total - fed - row.leftAlone);
  return {
    ...row,
    state: row.cancelledAt ? 'cancelled' : row.finishedAt ? 'finished' : 'active',
    overlap: beside ? 'allow' : 'forbid',
    left: row.cancelledAt ? 0 : left,
    notReached: row.cancelledAt ? left : 0,
  };
}

/** Takes backfills in, shows and cancels them. The replicas' `BackfillService` does the rest. */
@Injectable()
@AfterRegistration()
export class Backfills {
  constructor(
    private readonly store: BackfillStore,
    private readonly cancels: BackfillCancelStore,
    private readonly partitions: PartitionStore,
    private readonly events: SchedulerEvents,
  ) {}

  async ask(jobName: string, from: Date, to: Date, given: unknown): Promise<BackfillPlan> {
    const job = await this.store.job(jobName);
    const { options, problems } = readBackfillOptions(given, job.overlap);
    const range = backfillRange(job.schedule, { from, to }, (await this.store.now()).getTime(), options.atMost);
    if ('problem' in range || problems.length > 0) {
      const all = 'problem' in range ? [range.problem, ...problems] : problems;
      throw new InvalidOptionsError(all, all.map((problem) => `Backfill of job "${job.name}": ${problem}`).join('\n'));
    }
    const standings = await this.store.standings(job.name, from, to);
    const plan = planOf(job.name, { from, to }, range.fireTimes, standings, options);
    if (options.dryRun) return plan;
    await this.requirePartitions(job.name, new Date(range.fireTimes[0]!));
    const { maxConcurrent, overlap, replay, requestedBy, reason } = options;
    const asked = {
      jobName: job.name,
      from,
      to,
      maxConcurrent,
      beside: overlap === 'allow',
      replay,
      total: plan.occurrences,
      requestedBy,
      reason,
    };
    const id = await this.store.create(asked);
    this.events.emit({
      type: 'backfill.started',
      id,
      jobName: job.name,
      from,
      to,
      occurrences: plan.occurrences,
      willRun: plan.willRun,
    });
    return { ...plan, id };
  }

  async list(limit: number): Promise<BackfillProgress[]> {
    return (await this.store.list(limit)).map(progressOf);
  }

  async cancel(id: string, given: unknown): Promise<BackfillProgress> {
    const { by, reason, problems } = readCancelOptions(given);
    if (problems.length > 0) throw new InvalidOptionsError(problems.map((problem) => `cancelBackfill: ${problem}`));
    const { jobName } = await this.find(id);
    const cancelled = await this.cancels.cancel(id, jobName, by, reason);
    const now = await this.find(id);
    if (cancelled) {
      const { running } = now;
      this.events.emit({
        type: 'backfill.cancelled',
        id,
        jobName,
        by,
        reason,
        cancelled: cancelled.cancelled + cancelled.putBack,
        running,
      });
    }
    return now;
  }

  private async find(id: string): Promise<BackfillProgress> {
    const row = await this.store.find(id);
    if (!row)
      throw new NotFoundError(
        'unknown-backfill',
        `There is no backfill ${JSON.stringify(id)}. SchedulerService.backfills() lists those there are, with their ids.`,
      );
    return progressOf(row);
  }

  /** A role that may make none would only be told by a loop that fails; the later ones are made as they are needed. */
  private async requirePartitions(jobName: string, oldest: Date): Promise<void> {
    try {
      await this.partitions.ensure([oldest]);
    } catch (error) {
      const month = oldest.toISOString().slice(0, 7);
      const why = error instanceof Error ? error.message : String(error);
      const problem = `Backfill of job "${jobName}": the partitions of ${month} are missing and could not be made (${why}): grant the role of the application what npx nestjs-distributed-cron sql roles prints, or make them.`;
      throw new SetupError('missing-partition', problem, { cause: error });
    }
  }
}

function planOf(
  jobName: string,
  range: { from: Date; to: Date },
  fireTimes: readonly number[],
  standings: ReadonlyMap<number, Standing>,
  { maxConcurrent, overlap, replay }: ResolvedBackfillOptions,
): BackfillPlan {
  const counted = { 'never ran': 0, 'under way': 0, ran: 0, 'ran as another name': 0 };
  for (const fireTime of fireTimes) counted[standings.get(fireTime) ?? 'never ran'] += 1;
  return {
    id: null,
    jobName,
    ...range,
    maxConcurrent,
    overlap,
    replay,
    occurrences: fireTimes.length,
    willRun: counted['never ran'] + (replay ? counted.ran : 0),
    alreadyRan: counted.ran + counted['ran as another name'],
    underWay: counted['under way'],
  };
}
