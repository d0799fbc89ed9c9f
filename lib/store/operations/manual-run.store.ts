import { RunRefusedError } from '../../errors/run-refused.error.js';
import { isOff } from '../jobs/flag-off.js';
import { operatedJob, type ReadOperator } from './operated-job.js';
import type { PartitionStore } from '../upkeep/partition.store.js';
import type { Query } from '../connection/query.js';
import { recordAction } from './record-action.js';
import { holdJobs } from '../jobs/replaced-schedules.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import { inTransaction } from '../connection/transaction.js';
import { wakeUp } from '../wake-up.js';

/** What a person may say about a run that is in the way: refuse this one, wait for it, or run beside it. */
export type ManualOverlap = 'forbid' | 'queue' | 'allow';

/** A run that somebody asks for. */
export interface ManualRun {
  readonly jobName: string;
  /** Null: the job's own policy. */
  readonly overlap: ManualOverlap | null;
  /** For its handler; undefined for what the job has. */
  readonly data: unknown;
  /** Why its flag is off, whatever the table says; null when it is not. */
  readonly flagOff: string | null;
}

interface Blocked {
  readonly why: string | null;
  readonly beside: boolean;
}

/** Milliseconds in which a free place is looked for. */
const PLACES = 5_000;

/**
 * Adds runs of their own identity: their fire time is when they were asked for, and has a part of a second, which no
 * occurrence has. Whether one may run now is judged behind the lock of its job, behind which claims are made: of two
 * clicks the second one sees the first one's row.
 */
export class ManualRunStore {
  constructor(
    private readonly database: SchedulerDatabase,
    private readonly partitions: PartitionStore,
  ) {}

  /**
   * @returns its fire time
   * @throws UnknownJobError, RenamedJobError; RunRefusedError when the job is held back, or a run is in the way
   */
  async add(run: ManualRun, { by, reason }: ReadOperator): Promise<Date> {
    const { database } = this;
    const { tables } = database;
    const { jobName } = run;
    let now = new Date();
    return this.partitions.makingSure(
      () => [now, new Date(now.getTime() + PLACES)],
      () =>
        inTransaction(database.coordination, async (query) => {
          await holdJobs(query, database, [jobName]);
          await operatedJob(query, tables, jobName);
          const blocked = await this.blocked(query, run);
          if (blocked.why) throw new RunRefusedError(jobName, 'run now', blocked.why);
          const [clock] = await query<{ now: Date }>('select clock_timestamp() as now');
          now = clock!.now;
          const fireTime = await this.insert(query, run, { now, by, beside: blocked.beside });
          const details = { ...(run.overlap && { overlap: run.overlap }), ...(run.data !== undefined && { data: run.data }) };
          await recordAction(query, tables, { action: 'run-now', jobName, fireTime, by, reason, details });
          await wakeUp(query, tables, 'runs');
          return fireTime;
        }),
    );
  }

  /** Why it may not run, if it may not, and whether it may run beside others. */
  private async blocked(query: Query, { jobName, overlap, flagOff }: ManualRun): Promise<Blocked> {
    const { jobRuns, jobSchedule, jobFlags } = this.database.tables;
    const [row] = await query<{ held: string | null; overlap: string; running: string | null; waiting: Date | null }>(
      `select case
                when not job.enabled then 'it is disabled; enable it first'
                when job.paused_at is not null and (job.paused_until is null or job.paused_until > clock_timestamp()) then 'it is paused; resume it first'
                when ${isOff(jobFlags, `job.policies ->> 'flag'`)} then 'its flag ' || (job.policies ->> 'flag') || ' is off'
              end as held,
              coalesce(job.policies ->> 'overlap', 'forbid') as overlap,
             (select run.claimed_by
              from   ${jobRuns} run
              where  run.job_name = job.name
              and    run.status in ('running', 'fanned_out')
              limit  1) as running,
             (select min(run.fire_time)
              from   ${jobRuns} run
              where  run.job_name = job.name
              and    run.trigger = 'manual'
              and    run.status in ('queued', 'failed', 'orphaned')) as waiting
       from   ${jobSchedule} job
       where  job.name = $1`,
      [jobName],
    );
    const held = row!.held ?? flagOff;
    const asked = overlap ?? row!.overlap;
    const free = (why: string | null): Blocked => ({ why, beside: asked === 'allow' });
    if (held || asked !== 'forbid') return free(held);
    if (row!.running) return free(`a run of it is under way on ${row!.running}, and its overlap is forbidden; wait, cancel that run, or ask with overlap: 'queue'`);
    return free(row!.waiting && `one that was asked for at ${row!.waiting.toISOString()} waits already`);
  }

  /** At the first free millisecond that is not a whole second. */
  private async insert(query: Query, { jobName, data }: ManualRun, { now, by, beside }: { now: Date; by: string; beside: boolean }): Promise<Date> {
    const { jobRuns } = this.database.tables;
    const [inserted] = await query<{ fire_time: Date }>(
      `insert into ${jobRuns} (job_name, fire_time, status, trigger, requested_by, data, beside, next_attempt_at)
       select $1, place.fire_time, 'queued', 'manual', $3, $4, $5, clock_timestamp()
       from  (select $2::timestamptz + millis * interval '1 millisecond' as fire_time
              from   generate_series(0, ${PLACES}) millis) place
       where  mod(extract(epoch from place.fire_time), 1) <> 0
       and    not exists (select from ${jobRuns} other where other.job_name = $1 and other.fire_time = place.fire_time)
       order  by place.fire_time
       limit  1
       returning fire_time`,
      [jobName, now.toISOString(), by, data === undefined ? null : JSON.stringify(data), beside],
    );
    if (!inserted) throw new RunRefusedError(jobName, 'run now', `it was asked for ${PLACES} times within seconds`);
    return inserted.fire_time;
  }
}
