import { Injectable } from '@nestjs/common';
import { monthOf } from '../options/retention.js';
import type { Schedule } from '../cron/schedule.js';
import { PartitionStore } from '../database/partition.store.js';
import { AfterRegistration } from '../database/registration.js';
import { InvalidOptionsError, NotFoundError, SetupError } from '../errors/errors.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import type { OverlapPolicy } from '../options/job-definition.js';
import { readBackfillOptions, readCancelOptions, type ResolvedBackfillOptions } from './backfill-options.js';
import type { Standing } from './backfill.js';
import { BackfillCancelStore, type BackfillCounts, type BackfillRow, BackfillStore } from './backfill.store.js';

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
export function progressOf({ beside, fedUntil: _, fed, ...row }: BackfillRow): BackfillProgress {
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

/** Each month is a partition of two tables, and every claim plans with all of them. */
const MOST_MONTHS = 120;

/** The occurrences a backfill is about, ascending, in milliseconds; or what is wrong with the range. */
export type BackfillRange = { readonly fireTimes: readonly number[] } | { readonly problem: string };

/**
 * The fire times from `from` to `to`, both included.
 * @param now the database's clock, milliseconds
 */
export function backfillRange(
  schedule: Schedule,
  range: { from: unknown; to: unknown },
  now: number,
  atMost: number,
): BackfillRange {
  const { from, to } = range;
  if (!isInstant(from)) return { problem: `from: expected a valid Date, got ${said(from)}.` };
  if (!isInstant(to)) return { problem: `to: expected a valid Date, got ${said(to)}.` };
  if (from > to) return { problem: `from (${iso(from)}) is later than to (${iso(to)}): exchange them.` };
  // The end of a day that is not over, or a clock that is a little ahead, does no harm while nothing comes due until
  // then.
  const toCome = schedule.nextAfter(now);
  if (toCome !== null && toCome <= to.getTime()) {
    return {
      problem: `to (${iso(to)}) is later than the database's clock (${iso(now)}), and the occurrence of ${iso(toCome)} is still to come: it is the schedule's. Give an earlier end.`,
    };
  }
  const after = from.getTime() - 1;
  const count = schedule.countBetween(after, to.getTime());
  if (count === 0)
    return {
      problem: `"${schedule.expression}" (${schedule.timeZone}) has no fire time from ${iso(from)} to ${iso(to)}${nearest(schedule, from, to)}.`,
    };
  if (count > atMost) {
    return {
      problem: `there are ${count} occurrences from ${iso(from)} to ${iso(to)}, and atMost allows ${atMost}: give a shorter range, or a larger atMost.`,
    };
  }
  const fireTimes = schedule.between(after, to.getTime());
  const months = new Set(fireTimes.map((fireTime) => monthOf(new Date(fireTime)).getTime())).size;
  if (months > MOST_MONTHS) {
    return {
      problem: `the occurrences lie in ${months} months, and each month needs partitions that every claim has to plan with: give ranges of at most ${MOST_MONTHS} months.`,
    };
  }
  return { fireTimes };
}

function nearest(schedule: Schedule, from: Date, to: Date): string {
  const around = [schedule.previousBefore(from.getTime()), schedule.nextAfter(to.getTime())].filter(
    (at) => at !== null,
  );
  return around.length === 0
    ? ''
    : `; the nearest ${around.length === 1 ? 'is' : 'are'} ${around.map(iso).join(' and ')}`;
}

function isInstant(value: unknown): value is Date {
  return value instanceof Date && Number.isFinite(value.getTime());
}

function said(value: unknown): string {
  return value instanceof Date ? 'an invalid one' : typeof value === 'string' ? JSON.stringify(value) : String(value);
}

function iso(instant: Date | number): string {
  return new Date(instant).toISOString();
}
