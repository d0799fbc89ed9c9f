import { Inject, Injectable } from '@nestjs/common';
import { SCHEDULER_OPTIONS } from '../options/tokens.js';
import { planCatchUp, type CatchUpPlan, type MissedGap } from './catch-up.js';
import type { JobDefinition } from '../options/job-definition.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { DatabaseTime } from '../database/clock.js';
import { forEachSettled } from '../database/collections.js';
import { Duty } from '../observe/duty.js';
import { RefusedData } from '../runs/refused-data.js';
import { CatchUpStore } from './catch-up.store.js';
import type { JobCursor } from '../jobs/job-cursor.js';
import { JobCursors } from '../jobs/job-cursors.js';

/** How soon a job is looked at again that another replica was deciding about. */
const LOOK_AGAIN_MS = 250;

/**
 * Decides about occurrences that nobody ran in time: after an outage, a freeze, or when every replica was down. A duty
 * of its own, so that thousands of missed occurrences delay none that is due now.
 */
@Injectable()
export class CatchUpService extends Duty {
  private readonly refused: RefusedData;

  constructor(
    @Inject(SCHEDULER_OPTIONS) options: ResolvedSchedulerOptions,
    private readonly cursors: JobCursors,
    private readonly store: CatchUpStore,
    private readonly time: DatabaseTime,
    events: SchedulerEvents,
  ) {
    super(events, { name: 'catch-up', maxSleepMs: options.pollIntervalMs });
    this.refused = new RefusedData(events);
    cursors.whenMissed(() => this.wake());
  }

  protected pass(): Promise<number> {
    return this.catchUp();
  }

  /**
   * One pass over the jobs with missed occurrences; one job's trouble is not the others'. @returns milliseconds to the
   * next
   */
  async catchUp(): Promise<number> {
    let isLeft = false;
    await forEachSettled(
      this.cursors.due(this.time.now()).missed,
      () => this.stopping,
      async (cursor) => {
        const missed = {
          jobName: cursor.job.name,
          fireTime: new Date(cursor.nextFireTime ?? cursor.decidedUntil),
        };
        const [isDecided] = await this.refused.takeApart(
          'catch up',
          [missed],
          ({ jobName }) => jobName,
          async () => [await this.decide(cursor)],
        );
        isLeft ||= isDecided === false;
      },
    );
    return isLeft ? LOOK_AGAIN_MS : this.refused.resting('catch up').forMs;
  }

  /**
   * Leaves every missed occurrence of the job decided: recorded, or queued for whoever has room.
   * @returns false when another replica is at it
   */
  private async decide(cursor: JobCursor): Promise<boolean> {
    const { job } = cursor;
    const plan = await this.store.decide(job, cursor.decidedUntil, (seen) => planCatchUp(job, seen, seen.decided));
    if (plan === 'outdated') this.events.emit({ type: 'job.outdated', jobName: job.name });
    if (typeof plan === 'string') return false;
    cursor.decideUntil(plan.decidedUntil);
    this.report(job, plan);
    return true;
  }

  private report(job: JobDefinition, { run, record }: CatchUpPlan): void {
    const spans = [...record, ...run.map((fireTime) => ({ from: fireTime, until: fireTime }))];
    if (spans.length === 0) return;
    this.events.emit({
      type: 'run.missed',
      jobName: job.name,
      queued: run.map((fireTime) => new Date(fireTime)),
      recorded: countOf(record),
      heldBack: countOf(record.filter(({ reason }) => reason === 'paused' || reason === 'disabled')),
      from: new Date(Math.min(...spans.map(({ from }) => from))),
      until: new Date(Math.max(...spans.map(({ until }) => until))),
    });
  }
}

function countOf(gaps: readonly MissedGap[]): number {
  return gaps.reduce((sum, { count }) => sum + count, 0);
}
