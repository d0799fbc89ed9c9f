import { Inject, Injectable } from '@nestjs/common';
import { DatabaseTime, judgeSkew } from '../database/clock.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import { isOutOfReach } from '../errors/database-trouble.js';
import { KnownJobs } from '../jobs/known-jobs.js';
import { ToldStore } from '../observe/alerts.service.js';
import { Duty } from '../observe/duty.js';
import type { EventOf } from '../observe/scheduler-event.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { SCHEDULER_OPTIONS } from '../options/tokens.js';

/** A look costs a subtraction. */
const CLOCK_AT_LEAST_EVERY_MS = 10_000;

/**
 * Tells when this machine's wall clock and the database's disagree, once when it begins and once when it is over.
 * Nothing is decided by it. Asks the database nothing: the reaper reads its clock at every poll.
 */
@Injectable()
export class ClockWatchService extends Duty {
  private readonly everyMs: number;
  private told: number | null = null;

  constructor(
    @Inject(SCHEDULER_OPTIONS) private readonly options: ResolvedSchedulerOptions,
    private readonly time: DatabaseTime,
    events: SchedulerEvents,
  ) {
    const everyMs = Math.min(options.pollIntervalMs, CLOCK_AT_LEAST_EVERY_MS);
    super(events, { name: 'clock watch', maxSleepMs: everyMs });
    this.everyMs = everyMs;
  }

  protected pass(): Promise<number> {
    return this.look();
  }

  /** One pass. @returns milliseconds to the next */
  async look(): Promise<number> {
    const { skew } = this.time;
    const { maxClockSkewMs: maxMs } = this.options;
    const verdict = skew && judgeSkew(skew, maxMs, this.told);
    if (!skew || !verdict) return this.everyMs;
    const skewMs = Math.round(skew.skewMs);
    this.told = verdict === 'skewed' ? skewMs : null;
    this.events.emit(verdict === 'skewed' ? { type: 'clock.skewed', skewMs, maxMs } : { type: 'clock.agrees', skewMs });
    return this.everyMs;
  }
}

/** A time in which the database does not answer. Milliseconds. */
export interface Outage {
  readonly since: number;
  /** The last failure of it. */
  readonly seenAt: number;
  /** Somebody was told. */
  readonly told: boolean;
  /** Whose passes failed. */
  readonly loops: ReadonlySet<string>;
}

/** What follows from a pass that failed or went well. */
export interface OutageStep {
  readonly outage: Outage | null;
  readonly news: 'unreachable' | 'reachable' | null;
}

/** Shorter than that is a restart or a failover, of which nobody has to be told. */
const TOLD_AFTER_MS = 10_000;

/** Passes that fail are tried again sooner than this: a failure that comes later belongs to another outage. */
const OVER_AFTER_MS = 5 * 60_000;

/** A pass of a loop did not reach the database. */
export function outageGoesOn(before: Outage | null, loop: string, at: number): OutageStep {
  const outage =
    before && at - before.seenAt <= OVER_AFTER_MS ? before : { since: at, told: false, loops: new Set<string>() };
  const tellNow = !outage.told && at - outage.since >= TOLD_AFTER_MS;
  const loops = outage.loops.has(loop) ? outage.loops : new Set([...outage.loops, loop]);
  return {
    outage: { since: outage.since, seenAt: at, told: outage.told || tellNow, loops },
    news: tellNow ? 'unreachable' : null,
  };
}

/** A pass of a loop went well again: the database answers, if it was that which failed before. */
export function outageEnds(before: Outage | null, loop: string): OutageStep {
  if (!before?.loops.has(loop)) return { outage: before, news: null };
  return { outage: null, news: before.told ? 'reachable' : null };
}

/**
 * Makes one fact of what many loops tell: the database does not answer, since when, and that it does again. Asks
 * nothing.
 */
@Injectable()
export class DatabaseWatch {
  private outage: Outage | null = null;

  constructor(private readonly events: SchedulerEvents) {}

  /** Listens until the stream ends. */
  listen(): void {
    this.events.of('loop.failed').subscribe((event) => this.failed(event));
    this.events.of('loop.recovered').subscribe(({ loop }) => this.recovered(loop));
  }

  private failed({ loop, trouble, at }: EventOf<'loop.failed'>): void {
    if (!trouble || !isOutOfReach(trouble)) return;
    const { outage, news } = outageGoesOn(this.outage, loop, at.getTime());
    this.outage = outage;
    if (news === 'unreachable')
      this.events.emit({ type: 'database.unreachable', since: new Date(outage!.since), trouble });
  }

  private recovered(loop: string): void {
    const since = this.outage?.since;
    const { outage, news } = outageEnds(this.outage, loop);
    this.outage = outage;
    if (news === 'reachable') this.events.emit({ type: 'database.reachable', since: new Date(since!) });
  }
}

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
const JOBS_AT_LEAST_EVERY_MS = 60_000;

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
    super(events, { name: 'overdue watch', maxSleepMs: JOBS_AT_LEAST_EVERY_MS });
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
    if (jobs.length === 0) return JOBS_AT_LEAST_EVERY_MS;
    const within = new Map(jobs.map(({ name, withinMs }) => [name, withinMs]));
    const outlooks = await this.store.outlook(jobs);
    for (const outlook of outlooks)
      if (outlook.overdueInMs <= 0) await this.tell(outlook, within.get(outlook.jobName)!);
    return Math.min(
      JOBS_AT_LEAST_EVERY_MS,
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
