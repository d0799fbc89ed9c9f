import { Injectable } from '@nestjs/common';
import { backfillRange } from '../domain/missed/backfill-range.js';
import type { Standing } from '../domain/missed/backfill.js';
import type { JobDefinition } from '../domain/job-definition.js';
import { InvalidBackfillError } from '../errors/invalid-backfill.error.js';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import { UnknownBackfillError } from '../errors/unknown-backfill.error.js';
import { SchedulerEvents } from '../events/scheduler-events.js';
import { readBackfillOptions, readCancelOptions, type ResolvedBackfillOptions } from '../options/backfill-options.js';
import { AfterRegistration } from '../runtime/registration.js';
import { BackfillCancelStore } from '../store/backfills/backfill-cancel.store.js';
import { BackfillStore } from '../store/backfills/backfill.store.js';
import { PartitionStore } from '../store/upkeep/partition.store.js';
import { progressOf, type BackfillPlan, type BackfillProgress } from './backfill-report.js';

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

  async ask(job: JobDefinition, from: Date, to: Date, given: unknown): Promise<BackfillPlan> {
    const { options, problems } = readBackfillOptions(given, job.overlap);
    const range = backfillRange(job.schedule, { from, to }, (await this.store.now()).getTime(), options.atMost);
    if ('problem' in range || problems.length > 0) {
      throw new InvalidBackfillError(job.name, 'problem' in range ? [range.problem, ...problems] : problems);
    }
    const standings = await this.store.standings(job.name, from, to);
    const plan = planOf(job.name, { from, to }, range.fireTimes, standings, options);
    if (options.dryRun) return plan;
    await this.requirePartitions(job.name, new Date(range.fireTimes[0]!));
    const { maxConcurrent, overlap, replay, requestedBy, reason } = options;
    const asked = { jobName: job.name, from, to, maxConcurrent, beside: overlap === 'allow', replay, total: plan.occurrences, requestedBy, reason };
    const id = await this.store.create(asked);
    this.events.emit({ type: 'backfill.started', id, jobName: job.name, from, to, occurrences: plan.occurrences, willRun: plan.willRun });
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
      this.events.emit({ type: 'backfill.cancelled', id, jobName, by, reason, cancelled: cancelled.cancelled + cancelled.putBack, running });
    }
    return now;
  }

  private async find(id: string): Promise<BackfillProgress> {
    const row = await this.store.find(id);
    if (!row) throw new UnknownBackfillError(id);
    return progressOf(row);
  }

  /** A role that may make none would only be told by a loop that fails; the later ones are made as they are needed. */
  private async requirePartitions(jobName: string, oldest: Date): Promise<void> {
    try {
      await this.partitions.ensure([oldest]);
    } catch (error) {
      const month = oldest.toISOString().slice(0, 7);
      const why = error instanceof Error ? error.message : String(error);
      const problem = `the partitions of ${month} are missing and could not be made (${why}): let the role of the application own the tables, or make them.`;
      throw new InvalidBackfillError(jobName, [problem]);
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
