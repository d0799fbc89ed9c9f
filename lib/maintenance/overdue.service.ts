import { Inject, Injectable } from '@nestjs/common';
import { Duty } from '../observe/duty.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import { KnownJobs } from '../jobs/known-jobs.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { ToldStore } from '../observe/told.store.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { SCHEDULER_OPTIONS } from '../options/tokens.js';

/** A job that says how often it should succeed. Milliseconds. */
export interface ExpectedJob {
  readonly name: string;
  readonly withinMs: number;
  /** How old an occurrence may be that is caught up. */
  readonly catchUpWindowMs: number;
}

/** When a job's success is overdue. */
export interface SuccessOutlook {
  readonly jobName: string;
  readonly lastSuccessAt: Date | null;
  /** Milliseconds from now; not more than zero when it is. */
  readonly overdueInMs: number;
}

/** Looks when jobs last succeeded. */
export class OverdueStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /** A job that is held back is not waited for. What was done under a former name counts. */
  async outlook(jobs: readonly ExpectedJob[]): Promise<SuccessOutlook[]> {
    const rows = await this.database.call<{ name: string; success_at: Date | null; overdue_in_ms: number }>(
      'job_success_outlook_1',
      [
        jobs.map(({ name }) => name),
        jobs.map(({ withinMs }) => withinMs),
        jobs.map(({ catchUpWindowMs }) => catchUpWindowMs),
      ],
    );
    return rows.map((row) => ({ jobName: row.name, lastSuccessAt: row.success_at, overdueInMs: row.overdue_in_ms }));
  }
}

/** A job may be paused, resumed or changed meanwhile. */
const LOOK_AT_LEAST_EVERY_MS = 60_000;

/**
 * Tells when a job that should succeed every so often has not, whatever the reason: also when nobody runs it. Sleeps
 * until the first could be overdue; asks nothing while no job says that it should.
 */
@Injectable()
export class OverdueService extends Duty {
  constructor(
    @Inject(SCHEDULER_OPTIONS) private readonly options: ResolvedSchedulerOptions,
    private readonly known: KnownJobs,
    private readonly store: OverdueStore,
    private readonly told: ToldStore,
    events: SchedulerEvents,
  ) {
    super(events, { name: 'overdue watch', maxSleepMs: LOOK_AT_LEAST_EVERY_MS });
  }

  protected pass(): Promise<number> {
    return this.look();
  }

  /** One pass. @returns milliseconds to the next */
  async look(): Promise<number> {
    const jobs = this.known
      .list()
      .flatMap(({ definition: { name, expectSuccessWithinMs, catchUpWindowMs } }) =>
        expectSuccessWithinMs === null ? [] : [{ name, withinMs: expectSuccessWithinMs, catchUpWindowMs }],
      );
    if (jobs.length === 0) return LOOK_AT_LEAST_EVERY_MS;
    const within = new Map(jobs.map(({ name, withinMs }) => [name, withinMs]));
    const outlooks = await this.store.outlook(jobs);
    for (const outlook of outlooks)
      if (outlook.overdueInMs <= 0) await this.tell(outlook, within.get(outlook.jobName)!);
    return Math.min(
      LOOK_AT_LEAST_EVERY_MS,
      ...outlooks.flatMap(({ overdueInMs }) => (overdueInMs > 0 ? [Math.ceil(overdueInMs)] : [])),
    );
  }

  /** On one replica; again when it lasts, or when the job had succeeded meanwhile. */
  private async tell({ jobName, lastSuccessAt }: SuccessOutlook, expectedWithinMs: number): Promise<void> {
    const again = { againAfterMs: this.options.alerts.repeatAfterMs, unlessSince: lastSuccessAt };
    if (!(await this.told.first(`job.overdue ${jobName}`, again))) return;
    this.events.emit({ type: 'job.overdue', jobName, lastSuccessAt, expectedWithinMs });
  }
}
