import type { CatchUpPlan, HeldSpan } from '../../domain/missed/catch-up.js';
import type { JobDefinition } from '../../domain/job-definition.js';
import type { SkipReason } from '../../domain/runs/run.js';
import type { DecidedSpan } from '../../domain/missed/undecided.js';
import { decidedSpans, insertDecisions, type Decision } from './decided-rows.js';
import type { EarlierHold } from '../entities/job-schedule.entity.js';
import type { PartitionStore } from '../upkeep/partition.store.js';
import type { Query } from '../connection/query.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import { inTransaction, tryLockName } from '../connection/transaction.js';

/** What is decided already, seen while nobody else decides. */
export interface DecidedWindow {
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
  constructor(
    private readonly database: SchedulerDatabase,
    private readonly partitions: PartitionStore,
  ) {}

  /**
   * Plans and writes in one transaction. Runs are written as queued: whoever has room claims them. The lock is the
   * catch-up's own and not waited for: claims go on beside it, also while whoever holds it is busy or frozen. The job's
   * own row is held meanwhile, so that no edit of its schedule comes between.
   */
  async decide(job: JobDefinition, from: number, plan: (seen: DecidedWindow) => CatchUpPlan): Promise<CatchUpPlan | Undecided> {
    let planned: CatchUpPlan = { run: [], record: [], decidedUntil: from };
    const fireTimes = () => [...planned.run, ...planned.record.map((gap) => gap.until)].map((fireTime) => new Date(fireTime));
    const attempt = () =>
      inTransaction(this.database.coordination, async (query): Promise<CatchUpPlan | Undecided> => {
        if (!(await tryLockName(query, `nestjs-distributed-cron:catch-up:${this.database.tables.schema}:${job.name}`))) return 'busy';
        const seen = await this.look(query, job, from);
        if (!seen) return 'outdated';
        planned = plan(seen);
        await this.write(query, job, planned);
        await this.advance(query, job, planned.decidedUntil);
        return planned;
      });
    try {
      return await this.partitions.makingSure(fireTimes, attempt);
    } catch (error) {
      if (error instanceof Overtaken) return 'busy';
      throw error;
    }
  }

  private async look(query: Query, job: JobDefinition, from: number): Promise<DecidedWindow | null> {
    const { tables } = this.database;
    const [schedule] = await query<ScheduleRow>(
      `select decided_until, enabled, disabled_at, paused_at, paused_until, earlier_holds
       from   ${tables.jobSchedule}
       where  name = $1
       and    cron = $2
       and    time_zone = $3
       and    calendar is not distinct from $4
       and    yields_to is null
       and    removed_at is null
       for    no key update`,
      [job.name, job.schedule.expression, job.schedule.timeZone, job.schedule.calendar],
    );
    if (!schedule) return null;
    const [clock] = await query<{ now: Date }>('select clock_timestamp() as now');
    const start = Math.max(from, schedule.decided_until.getTime());
    const decided = await decidedSpans(query, tables, [{ name: job.name, from: start }]);
    return { now: clock!.now.getTime(), from: start, held: heldSpans(schedule), decided: decided.get(job.name)! };
  }

  private async write(query: Query, job: JobDefinition, { run, record }: CatchUpPlan): Promise<void> {
    const decisions: Decision[] = [
      ...record.map((gap) => ({ jobName: job.name, fireTime: gap.until, status: 'skipped' as const, reason: gap.reason, gap })),
      ...run.map((fireTime) => ({ jobName: job.name, fireTime, status: 'queued' as const, reason: null, gap: null })),
    ];
    const written = await insertDecisions(query, this.database.tables, decisions);
    if (written < decisions.length) throw new Overtaken();
    const standsIn = run[0] ?? record.findLast(({ reason }) => reason === SUPERSEDED)?.until;
    if (job.missed === 'once' && standsIn !== undefined) await this.supersede(query, job, standsIn);
  }

  /**
   * Of what an earlier catch-up left to run and nobody has begun, the newest stands in for all. What a claim has in hand
   * is let begin: waiting for it here, with the job's row held, could wait for ever.
   */
  private async supersede(query: Query, job: JobDefinition, newest: number): Promise<void> {
    const { jobRuns } = this.database.tables;
    await query(
      `update ${jobRuns} run
       set    status = 'cancelled',
              reason = '${SUPERSEDED}',
              next_attempt_at = null,
              finished_at = clock_timestamp()
       from  (select job_name, fire_time
              from   ${jobRuns}
              where  job_name = $1
              and    fire_time < $2
              and    status = 'queued'
              and    trigger = 'catch-up'
              and    attempt = 0
              for    update skip locked) older
       where  run.job_name = older.job_name
       and    run.fire_time = older.fire_time`,
      [job.name, new Date(newest).toISOString()],
    );
  }

  private async advance(query: Query, job: JobDefinition, until: number): Promise<void> {
    await query(
      `update ${this.database.tables.jobSchedule}
       set    decided_until = $2
       where  name = $1
       and    decided_until < $2`,
      [job.name, new Date(until).toISOString()],
    );
  }
}

const SUPERSEDED: SkipReason = 'missed: superseded by a newer one';

interface ScheduleRow {
  decided_until: Date;
  enabled: boolean;
  disabled_at: Date | null;
  paused_at: Date | null;
  paused_until: Date | null;
  earlier_holds: EarlierHold[];
}

/** A hold whose beginning nobody noted has always been. */
function heldSpans({ enabled, disabled_at, paused_at, paused_until, earlier_holds }: ScheduleRow): HeldSpan[] {
  const spans: HeldSpan[] = earlier_holds.map(({ reason, since, until }) => ({
    reason,
    since: since === null ? -Infinity : Date.parse(since),
    until: Date.parse(until),
  }));
  if (paused_at) spans.push({ since: paused_at.getTime(), until: paused_until?.getTime() ?? Infinity, reason: 'paused' });
  if (!enabled) spans.push({ since: disabled_at?.getTime() ?? -Infinity, until: Infinity, reason: 'disabled' });
  return spans;
}

/** Somebody wrote a row that was to be written here: nothing of the plan holds. */
class Overtaken extends Error {}
