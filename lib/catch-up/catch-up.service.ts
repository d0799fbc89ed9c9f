import { Inject, Injectable } from '@nestjs/common';
import { SCHEDULER_OPTIONS } from '../options/tokens.js';
import { planCatchUp, type CatchUpPlan, type HeldSpan } from './catch-up.js';
import type { JobDefinition } from '../options/job-definition.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { DatabaseTime } from '../database/clock.js';
import { forEachSettled } from '../database/collections.js';
import { Duty } from '../observe/duty.js';
import { RefusedData } from '../runs/refused-data.js';
import { type JobCursor, JobCursors } from '../jobs/job-cursors.js';
import type { SkipReason } from '../options/run.js';
import { type DecidedSpan, decidedSpans, type MissedGap } from '../jobs/undecided.js';
import type { EarlierHold } from '../jobs/job.entities.js';
import type { PartitionStore } from '../database/partition.store.js';
import { queryOn, type Query } from '../database/query.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';

/** What is decided already. */
interface DecidedWindow {
  /** The database's clock, milliseconds. */
  readonly now: number;
  /** From here on, fire times must be compared; everything before is decided. Milliseconds. */
  readonly from: number;
  readonly decided: readonly DecidedSpan[];
  readonly held: readonly HeldSpan[];
}

/** Why nothing was decided about a job: somebody else is at it, or it has another schedule by now. */
export type Undecided = 'busy' | 'outdated';

/** Writes what becomes of missed occurrences. Of replicas that start together one decides; the others find it done. */
export class CatchUpStore {
  private readonly query: Query;

  constructor(
    private readonly database: SchedulerDatabase,
    private readonly partitions: PartitionStore,
  ) {
    this.query = queryOn(database.coordination);
  }

  /**
   * Looks, plans, and writes all of the plan if nothing has changed since the look. Runs are written as queued: whoever
   * has room claims them.
   */
  async decide(
    job: JobDefinition,
    from: number,
    plan: (seen: DecidedWindow) => CatchUpPlan,
  ): Promise<CatchUpPlan | Undecided> {
    const looked = await this.look(job, from);
    if (!looked) return 'outdated';
    const planned = plan(looked.window);
    const written = await this.partitions.makingSure(
      () => [...planned.run, ...planned.record.map((gap) => gap.until)].map((fireTime) => new Date(fireTime)),
      () => this.write(job, looked, planned),
    );
    return written ? planned : 'busy';
  }

  private async look(job: JobDefinition, from: number): Promise<Looked | null> {
    const { tables } = this.database;
    const [schedule] = await this.query<ScheduleRow>(
      `select decided_until, enabled, disabled_at, paused_at, paused_until, xmin::text as seen, clock_timestamp() as now,
              -- Read by the database, which refuses what is no hold, here as in a claim.
              array(select jsonb_build_object('reason', hold ->> 'reason', 'since', (hold ->> 'since')::timestamptz, 'until', (hold ->> 'until')::timestamptz)
                    from   jsonb_array_elements(earlier_holds) hold) as earlier_holds
       from   ${tables.jobSchedule}
       where  name = $1
       and    cron = $2
       and    time_zone = $3
       and    calendar is not distinct from $4
       and    yields_to is null
       and    removed_at is null`,
      [job.name, job.schedule.expression, job.schedule.timeZone, job.schedule.calendar],
    );
    if (!schedule) return null;
    const start = Math.max(from, schedule.decided_until.getTime());
    const decided = await decidedSpans(this.query, tables, [{ name: job.name, from: start }]);
    return {
      seen: schedule.seen,
      window: { now: schedule.now.getTime(), from: start, held: heldSpans(schedule), decided: decided.get(job.name)! },
    };
  }

  /** @returns false when somebody else is at the job, or has been since the look */
  private async write(
    job: JobDefinition,
    { seen, window }: Looked,
    { run, record, decidedUntil }: CatchUpPlan,
  ): Promise<boolean> {
    const decisions = [
      ...record.map((gap) => ({
        fire_time: iso(gap.until),
        reason: gap.reason,
        gap_from: iso(gap.from),
        gap_count: gap.count,
      })),
      ...run.map((fireTime) => ({ fire_time: iso(fireTime) })),
    ];
    const standsIn =
      job.missed === 'once' ? (run[0] ?? record.findLast(({ reason }) => reason === SUPERSEDED)?.until) : undefined;
    const [written] = await this.database.call<{ catch_up_write_1: boolean }>('catch_up_write_1', [
      job.name,
      seen,
      iso(window.from),
      iso(decidedUntil),
      window.decided.filter(({ until }) => until <= decidedUntil).length,
      JSON.stringify(decisions),
      standsIn === undefined ? null : iso(standsIn),
    ]);
    return written!.catch_up_write_1;
  }
}

const SUPERSEDED: SkipReason = 'missed: superseded by a newer one';

interface Looked {
  readonly window: DecidedWindow;
  /** Another with every change of the job's row. */
  readonly seen: string;
}

interface ScheduleRow {
  decided_until: Date;
  enabled: boolean;
  disabled_at: Date | null;
  paused_at: Date | null;
  paused_until: Date | null;
  earlier_holds: Pick<EarlierHold, 'reason' | 'since' | 'until'>[];
  seen: string;
  now: Date;
}

/** A hold whose beginning nobody noted has always been. */
function heldSpans({ enabled, disabled_at, paused_at, paused_until, earlier_holds }: ScheduleRow): HeldSpan[] {
  const spans: HeldSpan[] = earlier_holds.map(({ reason, since, until }) => ({
    reason,
    since: since === null ? -Infinity : Date.parse(since),
    until: Date.parse(until),
  }));
  if (paused_at)
    spans.push({ since: paused_at.getTime(), until: paused_until?.getTime() ?? Infinity, reason: 'paused' });
  if (!enabled) spans.push({ since: disabled_at?.getTime() ?? -Infinity, until: Infinity, reason: 'disabled' });
  return spans;
}

function iso(millis: number): string {
  return new Date(millis).toISOString();
}

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
