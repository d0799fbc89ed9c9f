import type { CatchUpPlan, HeldSpan } from '../domain/catch-up.js';
import type { JobDefinition } from '../domain/job-definition.js';
import type { DecidedSpan } from '../domain/undecided.js';
import type { PartitionStore } from './partition.store.js';
import type { Query } from './query.js';
import type { SchedulerDatabase } from './scheduler-database.js';
import { inTransaction, tryLockName } from './transaction.js';

/** What is decided already, seen while nobody else decides. */
export interface DecidedWindow {
  /** The database's clock, milliseconds. */
  readonly now: number;
  /** From here on, fire times must be compared; everything before is decided. Milliseconds. */
  readonly from: number;
  readonly decided: readonly DecidedSpan[];
  readonly held: readonly HeldSpan[];
}

/** Writes what becomes of missed occurrences. Of replicas that start together one decides; the others find it done. */
export class CatchUpStore {
  constructor(
    private readonly database: SchedulerDatabase,
    private readonly partitions: PartitionStore,
  ) {}

  /**
   * Plans and writes in one transaction. Runs are written as queued: whoever has room claims them. The lock is the
   * catch-up's own and not waited for: claims go on beside it, also while whoever holds it is busy or frozen.
   * @returns null when another replica is deciding about the job right now, or has just claimed part of what was planned
   */
  async decide(job: JobDefinition, from: number, plan: (seen: DecidedWindow) => CatchUpPlan): Promise<CatchUpPlan | null> {
    let planned: CatchUpPlan = { run: [], record: [], decidedUntil: from };
    const fireTimes = () => [...planned.run, ...planned.record.map((gap) => gap.until)].map((fireTime) => new Date(fireTime));
    const attempt = () =>
      inTransaction(this.database.coordination, async (query) => {
        if (!(await tryLockName(query, `nestjs-distributed-cron:catch-up:${this.database.tables.schema}:${job.name}`))) return null;
        planned = plan(await this.look(query, job, from));
        await this.write(query, job, planned);
        await this.advance(query, job, planned.decidedUntil);
        return planned;
      });
    try {
      return await this.partitions.makingSure(fireTimes, attempt);
    } catch (error) {
      if (error instanceof Overtaken) return null;
      throw error;
    }
  }

  private async look(query: Query, job: JobDefinition, from: number): Promise<DecidedWindow> {
    const { jobRuns, jobSchedule } = this.database.tables;
    const [clock] = await query<{ now: Date }>('select clock_timestamp() as now');
    const [schedule] = await query<ScheduleRow>(
      `select decided_until, enabled, paused_at, paused_until
       from   ${jobSchedule}
       where  name = $1
       and    cron = $2
       and    time_zone = $3`,
      [job.name, job.schedule.expression, job.schedule.timeZone],
    );
    const now = clock!.now.getTime();
    const start = Math.max(from, schedule?.decided_until.getTime() ?? from);
    const rows = await query<{ fire_time: Date; gap_from: Date | null }>(
      `select fire_time, gap_from
       from   ${jobRuns}
       where  job_name = $1
       and    fire_time > $2`,
      [job.name, new Date(start).toISOString()],
    );
    return {
      now,
      from: start,
      held: schedule ? heldSince(schedule) : [],
      decided: rows.map((row) => ({ from: (row.gap_from ?? row.fire_time).getTime(), until: row.fire_time.getTime() })),
    };
  }

  private async write(query: Query, job: JobDefinition, plan: CatchUpPlan): Promise<void> {
    const rows = [
      ...plan.record.map((gap) => ({ fireTime: gap.until, status: 'skipped', reason: gap.reason, gapFrom: gap.from, gapCount: gap.count })),
      ...plan.run.map((fireTime) => ({ fireTime, status: 'queued', reason: null, gapFrom: null, gapCount: null })),
    ].sort((a, b) => a.fireTime - b.fireTime);
    if (rows.length === 0) return;
    const written = await query(
      `insert into ${this.database.tables.jobRuns}
              (job_name, fire_time, status, trigger, reason, finished_at, next_attempt_at, gap_from, gap_count)
       select $1, fire_time, status, 'catch-up', reason,
              case status when 'skipped' then clock_timestamp() end,
              case status when 'queued' then clock_timestamp() end,
              gap_from, gap_count
       from   unnest($2::timestamptz[], $3::text[], $4::text[], $5::timestamptz[], $6::integer[])
                as decided (fire_time, status, reason, gap_from, gap_count)
       on conflict (job_name, fire_time) do nothing
       returning 1`,
      [
        job.name,
        rows.map((row) => iso(row.fireTime)),
        rows.map((row) => row.status),
        rows.map((row) => row.reason),
        rows.map((row) => (row.gapFrom === null ? null : iso(row.gapFrom))),
        rows.map((row) => row.gapCount),
      ],
    );
    if (written.length < rows.length) throw new Overtaken();
  }

  private async advance(query: Query, job: JobDefinition, until: number): Promise<void> {
    await query(
      `update ${this.database.tables.jobSchedule}
       set    decided_until = $4
       where  name = $1
       and    cron = $2
       and    time_zone = $3
       and    decided_until < $4`,
      [job.name, job.schedule.expression, job.schedule.timeZone, iso(until)],
    );
  }
}

interface ScheduleRow {
  decided_until: Date;
  enabled: boolean;
  paused_at: Date | null;
  paused_until: Date | null;
}

/** Nobody noted when a job was disabled: nothing of it is missed. */
function heldSince({ enabled, paused_at, paused_until }: ScheduleRow): HeldSpan[] {
  if (!enabled) return [{ since: -Infinity, until: Infinity, reason: 'disabled' }];
  return paused_at ? [{ since: paused_at.getTime(), until: paused_until?.getTime() ?? Infinity, reason: 'paused' }] : [];
}

function iso(millis: number): string {
  return new Date(millis).toISOString();
}

/** Somebody wrote a row that was to be written here: nothing of the plan holds. */
class Overtaken extends Error {}
