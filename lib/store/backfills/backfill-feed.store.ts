import { heirOfGap, planFeed, type FeedPlan, type OccurrenceRow } from '../../domain/missed/backfill.js';
import { missedUntil } from '../../domain/missed/catch-up.js';
import type { JobDefinition } from '../../domain/job-definition.js';
import type { RunStatus } from '../../domain/runs/run.js';
import { standingsElsewhere } from '../jobs/other-names.js';
import type { PartitionStore } from '../upkeep/partition.store.js';
import type { Query } from '../connection/query.js';
import { reopenPages } from '../pages/page-reopening.js';
import { insertRuns, reopenRuns, shrinkGaps, type RestOfGap } from '../operations/reopen-statements.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import { inTransaction, tryLockName } from '../connection/transaction.js';

/** How many fire times one pass looks at: a long stretch that ran already is passed over piece by piece. */
const MOST_AT_ONCE = 100;

/** What one pass came to. */
export interface Fed {
  readonly queued: readonly Date[];
  /** Set by the pass that found nothing left to do: how it ended. */
  readonly finished: { readonly total: number; readonly leftAlone: number; readonly done: number; readonly dead: number } | null;
  /** There is more to go through at once. */
  readonly more: boolean;
  /** The schedule itself has still to decide about what comes next. */
  readonly notDecidedYet: boolean;
}

interface Active {
  readonly range_to: Date;
  readonly fed_until: Date;
  readonly max_concurrent: number;
  readonly beside: boolean;
  readonly replay: boolean;
  readonly now: Date;
  readonly decided_until: Date | null;
  readonly open: number;
}

/** Queues the occurrences of backfills, a few at a time. Of replicas that feed one job one does; the others find it done. */
export class BackfillFeedStore {
  constructor(
    private readonly database: SchedulerDatabase,
    private readonly partitions: PartitionStore,
  ) {}

  /**
   * Queues as many occurrences as the backfill may have open, and moves its cursor over them and over what is left alone.
   * @returns null when another replica feeds the job right now, or the backfill is over
   */
  async feed(id: string, job: JobDefinition): Promise<Fed | null> {
    const touched: number[] = [];
    return this.partitions.makingSure(
      () => touched.map((fireTime) => new Date(fireTime)),
      () =>
        inTransaction(this.database.coordination, async (query) => {
          if (!(await tryLockName(query, `nestjs-distributed-cron:backfill:${this.database.tables.schema}:${job.name}`))) return null;
          const active = await this.look(query, id, job);
          if (!active) return null;
          const { planned, atEnd } = await this.plan(query, job, active);
          const queued = await this.write(query, id, job, active, planned, touched);
          await this.advance(query, id, planned, queued.length, atEnd ? active.range_to : new Date(planned.fedUntil));
          return {
            queued,
            finished: atEnd && active.open + queued.length === 0 ? await this.finish(query, id) : null,
            more: planned.stop === null && !atEnd,
            notDecidedYet: planned.stop === 'not decided yet',
          };
        }),
    );
  }

  /** Holds the backfill's row: whoever cancels it waits, and then finds everything that was queued. */
  private async look(query: Query, id: string, { name, schedule }: JobDefinition): Promise<Active | null> {
    const { jobRuns, jobBackfills, jobSchedule } = this.database.tables;
    const [active] = await query<Active>(
      `select range_to, fed_until, max_concurrent, beside, replay, clock_timestamp() as now,
             (select decided_until from ${jobSchedule} where name = $2 and cron = $3 and time_zone = $4) as decided_until,
             (select count(*)
              from   ${jobRuns} run
              where  run.backfill_id = backfill.id
              and    run.status in ('queued', 'running', 'fanned_out', 'failed', 'orphaned'))::integer as open
       from   ${jobBackfills} backfill
       where  id = $1
       and    finished_at is null
       and    cancelled_at is null
       for    update`,
      [id, name, schedule.expression, schedule.timeZone],
    );
    return active ?? null;
  }

  private async plan(query: Query, job: JobDefinition, active: Active): Promise<{ planned: FeedPlan; atEnd: boolean }> {
    const after = active.fed_until.getTime();
    const fireTimes = job.schedule.between(after, active.range_to.getTime(), MOST_AT_ONCE);
    const bounds = {
      after,
      room: Math.max(0, active.max_concurrent - active.open),
      replay: active.replay,
      // What has no row before the watermark is from before the job was there, and nobody else's.
      liveAfter: Math.max(missedUntil(active.now.getTime(), job), active.decided_until?.getTime() ?? -Infinity),
    };
    const rows = await this.rows(query, job.name, fireTimes);
    const elsewhere = await standingsElsewhere(query, this.database.tables, job.name, new Date(fireTimes[0] ?? after), new Date(fireTimes.at(-1) ?? after));
    const planned = planFeed(fireTimes, rows, bounds, elsewhere);
    return { planned, atEnd: planned.stop === null && fireTimes.length < MOST_AT_ONCE };
  }

  private async rows(query: Query, jobName: string, fireTimes: readonly number[]): Promise<Map<number, OccurrenceRow>> {
    if (fireTimes.length === 0) return new Map();
    const rows = await query<{ fire_time: Date; status: RunStatus; attempt: number; reason: string | null; gap_from: Date | null; gap_count: number | null }>(
      `select fire_time, status, attempt, reason, gap_from, gap_count
       from   ${this.database.tables.jobRuns}
       where  job_name = $1
       and    fire_time between $2 and $3`,
      [jobName, new Date(fireTimes[0]!).toISOString(), new Date(fireTimes.at(-1)!).toISOString()],
    );
    return new Map(
      rows.map(({ fire_time, status, attempt, reason, gap_from, gap_count }) => [
        fire_time.getTime(),
        { fireTime: fire_time.getTime(), status, attempt, reason, gapFrom: gap_from?.getTime() ?? null, gapCount: gap_count },
      ]),
    );
  }

  /**
   * @param touched gets the fire times of all rows it writes
   * @returns what was queued: what somebody else claimed meanwhile is not
   */
  private async write(query: Query, id: string, job: JobDefinition, { beside }: Active, { insert, reopen }: FeedPlan, touched: number[]): Promise<Date[]> {
    touched.push(...insert);
    const inserted = await insertRuns(query, this.database.tables, { id, beside }, job.name, insert);
    await shrinkGaps(query, this.database.tables, job.name, inserted);
    const reopened: Date[] = [];
    for (const row of reopen) {
      const gap = await this.restOfGap(query, job, row);
      if (gap.heir !== null) touched.push(gap.heir);
      const [fireTime] = await reopenRuns(query, this.database.tables, { id, beside }, job.name, row, gap);
      if (!fireTime) continue;
      reopened.push(fireTime);
      // Its tick would only find that all is published.
      await reopenPages(query, this.database.tables, { jobName: job.name, fireTime }, 'a backfill');
    }
    return [...inserted, ...reopened].sort((a, b) => a.getTime() - b.getTime());
  }

  /** A row that stands for a gap hands the rest of it to another before it runs. Looks afresh: rows were just added. */
  private async restOfGap(query: Query, job: JobDefinition, { gapFrom, fireTime }: OccurrenceRow): Promise<RestOfGap> {
    if (gapFrom === null) return { heir: null, count: 0 };
    const rows = await this.rows(query, job.name, [gapFrom, fireTime]);
    const count = (rows.get(fireTime)?.gapCount ?? 1) - 1;
    return { heir: count > 0 ? heirOfGap(job.schedule, { from: gapFrom, until: fireTime }, new Set(rows.keys())) : null, count };
  }

  private async advance(query: Query, id: string, { leftAlone, insert, reopen }: FeedPlan, queued: number, fedUntil: Date): Promise<void> {
    await query(
      `update ${this.database.tables.jobBackfills}
       set    fed_until = $2,
              fed = fed + $3,
              left_alone = left_alone + $4
       where  id = $1`,
      [id, fedUntil.toISOString(), queued, leftAlone + insert.length + reopen.length - queued],
    );
  }

  private async finish(query: Query, id: string): Promise<Fed['finished']> {
    const { jobRuns, jobBackfills } = this.database.tables;
    const [ended] = await query<NonNullable<Fed['finished']>>(
      `update ${jobBackfills} backfill
       set    finished_at = clock_timestamp()
       where  id = $1
       returning total, left_alone as "leftAlone",
                (select count(*) from ${jobRuns} run where run.backfill_id = backfill.id and run.status = 'done')::integer as done,
                (select count(*) from ${jobRuns} run where run.backfill_id = backfill.id and run.status = 'dead')::integer as dead`,
      [id],
    );
    return ended ?? null;
  }
}
