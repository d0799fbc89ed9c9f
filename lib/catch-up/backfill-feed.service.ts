import { heirOfGap, planFeed, type FeedPlan, type OccurrenceRow } from './backfill-plan.js';
import { missedUntil } from '../jobs/job-cursors.js';
import type { JobDefinition } from '../options/job-definition.js';
import type { RunStatus } from '../options/run.js';
import type { PartitionStore } from '../database/partition.store.js';
import { queryOn, type Query } from '../database/query.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import { Injectable } from '@nestjs/common';
import { KnownJobs } from '../jobs/known-jobs.js';
import { LONGEST_TIMER_MS } from '../options/duration.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { forEachSettled } from '../database/collections.js';
import { ReaperService } from '../runs/reaper.service.js';
import { isRunEnd, type SchedulerEvent } from '../observe/scheduler-event.js';
import { Duty } from '../observe/duty.js';
import { BackfillStore, standingsElsewhere } from './backfill.repository.js';

/** How many fire times one pass looks at: a long stretch that ran already is passed over piece by piece. */
const MOST_AT_ONCE = 100;

/** What one pass came to. */
interface Fed {
  readonly queued: readonly Date[];
  /** Set by the pass that found nothing left to do: how it ended. */
  readonly finished: {
    readonly total: number;
    readonly leftAlone: number;
    readonly done: number;
    readonly dead: number;
  } | null;
  /** There is more to go through at once. */
  readonly more: boolean;
  /** The schedule itself has still to decide about what comes next. */
  readonly notDecidedYet: boolean;
}

interface Active {
  readonly range_to: Date;
  readonly fed_until: Date;
  readonly max_concurrent: number;
  readonly replay: boolean;
  readonly now: Date;
  readonly decided_until: Date | null;
  readonly open: number;
  /** Another with every change of its row. */
  readonly seen: string;
}

/** A row as it was read, that is to be run. */
interface Reopened extends OccurrenceRow {
  /** The fire time whose new row stands for the rest of its gap from now on; null when there is none. */
  readonly heir: number | null;
  /** How many other occurrences it stood for. */
  readonly rest: number;
}

interface FedRow {
  readonly verdict: 'busy' | 'fed' | 'finished';
  readonly ended_total: number;
  readonly ended_left_alone: number;
  readonly ended_done: number;
  readonly ended_dead: number;
}

/**
 * Queues the occurrences of backfills, a few at a time. Of replicas that feed one job one does; the others find it
 * done.
 */
export class BackfillFeedStore {
  private readonly query: Query;

  constructor(
    private readonly database: SchedulerDatabase,
    private readonly partitions: PartitionStore,
  ) {
    this.query = queryOn(database.coordination);
  }

  /**
   * Queues as many occurrences as the backfill may have open, and moves its cursor over them and over what is left
   * alone.
   * @returns null when somebody else was at the job since it was looked at, or the backfill is over
   */
  async feed(id: string, job: JobDefinition): Promise<Fed | null> {
    const active = await this.look(id, job);
    if (!active) return null;
    const { planned, atEnd } = await this.plan(job, active);
    const reopen = await this.withHeirs(job, planned);
    const touched = [...planned.insert, ...reopen.flatMap(({ heir }) => heir ?? [])];
    const fed = await this.partitions.makingSure(
      () => touched.map((fireTime) => new Date(fireTime)),
      () =>
        this.write(
          id,
          job,
          active,
          { ...planned, reopen, fedUntil: atEnd ? active.range_to.getTime() : planned.fedUntil },
          atEnd,
        ),
    );
    if (fed.verdict === 'busy') return null;
    return {
      queued: [...planned.insert, ...reopen.map(({ fireTime }) => fireTime)]
        .sort((a, b) => a - b)
        .map((fireTime) => new Date(fireTime)),
      finished:
        fed.verdict === 'finished'
          ? { total: fed.ended_total, leftAlone: fed.ended_left_alone, done: fed.ended_done, dead: fed.ended_dead }
          : null,
      more: planned.stop === null && !atEnd,
      notDecidedYet: planned.stop === 'not decided yet',
    };
  }

  private async look(id: string, { name, schedule }: JobDefinition): Promise<Active | null> {
    const { tables } = this.database;
    const { jobBackfills, jobSchedule } = tables;
    const [active] = await this.query<Active>(
      `select range_to, fed_until, max_concurrent, replay, xmin::text as seen, clock_timestamp() as now,
             (select decided_until from ${jobSchedule} where name = $2 and cron = $3 and time_zone = $4) as decided_until,
             (select open from ${tables.qualify('backfill_open_1')}(backfill.id))::integer as open
       from   ${jobBackfills} backfill
       where  id = $1
       and    finished_at is null
       and    cancelled_at is null`,
      [id, name, schedule.expression, schedule.timeZone],
    );
    return active ?? null;
  }

  private async plan(job: JobDefinition, active: Active): Promise<{ planned: FeedPlan; atEnd: boolean }> {
    const after = active.fed_until.getTime();
    const fireTimes = job.schedule.between(after, active.range_to.getTime(), MOST_AT_ONCE);
    const bounds = {
      after,
      room: Math.max(0, active.max_concurrent - active.open),
      replay: active.replay,
      // What has no row before the watermark is from before the job was there, and nobody else's.
      liveAfter: Math.max(missedUntil(active.now.getTime(), job), active.decided_until?.getTime() ?? -Infinity),
    };
    const rows = await this.rows(job.name, fireTimes);
    const elsewhere = await standingsElsewhere(
      this.query,
      this.database.tables,
      job.name,
      new Date(fireTimes[0] ?? after),
      new Date(fireTimes.at(-1) ?? after),
    );
    const planned = planFeed(fireTimes, rows, bounds, elsewhere);
    return { planned, atEnd: planned.stop === null && fireTimes.length < MOST_AT_ONCE };
  }

  private async rows(jobName: string, fireTimes: readonly number[]): Promise<Map<number, OccurrenceRow>> {
    if (fireTimes.length === 0) return new Map();
    const rows = await this.query<{
      fire_time: Date;
      status: RunStatus;
      attempt: number;
      reason: string | null;
      gap_from: Date | null;
      gap_count: number | null;
    }>(
      `select fire_time, status, attempt, reason, gap_from, gap_count
       from   ${this.database.tables.jobRuns}
       where  job_name = $1
       and    fire_time between $2 and $3`,
      [jobName, new Date(fireTimes[0]!).toISOString(), new Date(fireTimes.at(-1)!).toISOString()],
    );
    return new Map(
      rows.map(({ fire_time, status, attempt, reason, gap_from, gap_count }) => [
        fire_time.getTime(),
        {
          fireTime: fire_time.getTime(),
          status,
          attempt,
          reason,
          gapFrom: gap_from?.getTime() ?? null,
          gapCount: gap_count,
        },
      ]),
    );
  }

  /**
   * A row that stands for a gap hands the rest of it to another before it runs: to the latest without a row, also once
   * the plan is written.
   */
  private async withHeirs(job: JobDefinition, { insert, reopen }: FeedPlan): Promise<Reopened[]> {
    const heirs: number[] = [];
    const reopened: Reopened[] = [];
    for (const row of reopen) {
      const { gapFrom, gapCount, fireTime } = row;
      if (gapFrom === null) {
        reopened.push({ ...row, heir: null, rest: 0 });
        continue;
      }
      const own = insert.filter((fed) => fed >= gapFrom && fed < fireTime);
      const rest = Math.max(1, (gapCount ?? 1) - own.length) - 1;
      const taken = rest > 0 ? [...(await this.rows(job.name, [gapFrom, fireTime])).keys(), ...insert, ...heirs] : [];
      const heir = rest > 0 ? heirOfGap(job.schedule, { from: gapFrom, until: fireTime }, new Set(taken)) : null;
      if (heir !== null) heirs.push(heir);
      reopened.push({ ...row, heir, rest });
    }
    return reopened;
  }

  private async write(
    id: string,
    job: JobDefinition,
    { seen }: Active,
    plan: Omit<FeedPlan, 'reopen'> & { readonly reopen: readonly Reopened[] },
    atEnd: boolean,
  ): Promise<FedRow> {
    const planned = {
      insert: plan.insert.map(iso),
      reopen: plan.reopen.map(({ fireTime, status, attempt, gapFrom, gapCount, heir, rest }) => ({
        ...{ fire_time: iso(fireTime), status, attempt, gap_from: gapFrom && iso(gapFrom), gap_count: gapCount },
        ...{ heir: heir && iso(heir), rest },
      })),
      left_alone: plan.leftAlone,
      fed_until: iso(plan.fedUntil),
      at_end: atEnd,
    };
    const [fed] = await this.database.call<FedRow>('backfill_feed_1', [id, job.name, seen, JSON.stringify(planned)]);
    return fed!;
  }
}

function iso(millis: number): string {
  return new Date(millis).toISOString();
}

/** How soon a backfill is looked at again that another replica was feeding. */
const LOOK_AGAIN_MS = 250;

/** How soon it is looked at again whether the schedule has decided about the newest occurrences of a range. */
const UNDECIDED_MS = 1_000;

/**
 * Feeds backfills: queues as many of their occurrences as may run at a time, and more when those have ended. Whoever
 * has room claims them, as everything that waits. While there is none it sleeps: `ScheduleFollower` sees when there is
 * one.
 */
@Injectable()
export class BackfillService extends Duty {
  private readonly fedJobs = new Set<string>();

  constructor(
    private readonly jobs: KnownJobs,
    private readonly store: BackfillStore,
    private readonly feeds: BackfillFeedStore,
    private readonly reaper: ReaperService,
    events: SchedulerEvents,
  ) {
    super(events, { name: 'backfill', maxSleepMs: LONGEST_TIMER_MS });
  }

  protected pass(): Promise<number> {
    return this.feed();
  }

  /** The end of a backfill's run makes room for the next, and for runs that waited for it. */
  override hear(event: SchedulerEvent): void {
    if (event.type === 'backfill.started') this.wake();
    if (!isRunEnd(event) || !this.fedJobs.has(event.jobName)) return;
    this.wake();
    this.reaper.wake();
  }

  /** One pass over the active backfills; one's trouble is not the others'. @returns milliseconds to the next */
  async feed(): Promise<number> {
    const active = await this.store.active(this.jobs.names());
    this.fedJobs.clear();
    for (const { jobName } of active) this.fedJobs.add(jobName);
    let sleep = Infinity;
    await forEachSettled(
      active,
      () => this.stopping,
      async ({ id, jobName }) => {
        const millis = await this.feedOne(id, this.jobs.get(jobName)!.definition);
        sleep = Math.min(sleep, millis);
      },
    );
    return sleep;
  }

  private async feedOne(id: string, job: JobDefinition): Promise<number> {
    const fed = await this.feeds.feed(id, job);
    if (!fed) return LOOK_AGAIN_MS;
    for (const fireTime of fed.queued)
      this.events.emit({ type: 'run.queued', jobName: job.name, fireTime, trigger: 'backfill' });
    if (fed.finished) this.events.emit({ type: 'backfill.finished', id, jobName: job.name, ...fed.finished });
    return sleepAfter(fed);
  }
}

function sleepAfter({ more, notDecidedYet }: Fed): number {
  if (more) return 0;
  return notDecidedYet ? UNDECIDED_MS : Infinity;
}
