import type { ConcurrencyGroup, JobPolicies } from '../options/job-definition.js';
import type { RunKey, RunStatus } from '../options/run.js';
import { compileSchedule, type Schedule } from '../cron/schedule.js';
import type { JobRunRepository } from '../runs/job-run.repository.js';
import { type ClaimVerdict, type Delivery, dueFacts } from '../runs/claim.js';
import { queryOn, type Query } from '../database/query.js';
import { noSuchJob } from '../jobs/stored-job.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import { wakeUp } from '../database/tables.js';

/** A job as it was declared last: whoever delivers need not have its code. */
export interface DeliverableJob
  extends Pick<
    JobPolicies,
    'overlap' | 'queueLimit' | 'concurrencyGroup' | 'missed' | 'catchUpWindowMs' | 'lateAfterMs' | 'fallbackMs' | 'flag'
  > {
  /** Its name by now. */
  readonly name: string;
  readonly schedule: Schedule;
  readonly parallel: number | null;
  readonly effectiveFrom: Date;
  readonly decidedUntil: Date;
  /** The database's clock. */
  readonly now: Date;
}

/** What there is of an occurrence: its own row, or the one that stands for it. */
export interface DeliveredStanding {
  readonly row: { readonly status: RunStatus; readonly reason: string | null; readonly attempt: number } | null;
  /** A later occurrence was started, or waits. */
  readonly isSuperseded: boolean;
}

/**
 * So much may be looked through beside what is needed: moving the watermark with each delivery would be a write of its
 * own.
 */
const SLACK_MS = 3_600_000;

/** What the delivery of an occurrence looks at and writes. */
export class DeliveryStore {
  private readonly query: Query;

  constructor(
    private readonly database: SchedulerDatabase,
    private readonly claims: JobRunRepository,
  ) {
    this.query = queryOn(database.coordination);
  }

  /**
   * The job of that name, also of a former one.
   * @throws NotFoundError; what `compileSchedule` throws, for what a newer version of this library, or a person,
   * stored
   */
  async job(name: string): Promise<DeliverableJob> {
    const { jobSchedule } = this.database.tables;
    const [row] = await this.query<DeliverableRow>(
      `select job.name, job.cron, job.time_zone, job.calendar, job.policies, job.effective_from, job.decided_until, clock_timestamp() as now
       from   ${jobSchedule} named
       join   ${jobSchedule} job on job.name = coalesce(named.yields_to, named.name)
       where  named.name = $1
       and    job.removed_at is null`,
      [name],
    );
    if (!row) throw await noSuchJob(this.query, jobSchedule, name);
    const {
      overlap,
      maxParallel,
      queueLimit,
      concurrencyGroup,
      missed,
      catchUpWindowMs,
      lateAfterMs,
      fallbackMs,
      flag,
    } = row.policies;
    return {
      ...{
        overlap,
        parallel: maxParallel,
        queueLimit,
        concurrencyGroup,
        missed,
        catchUpWindowMs,
        lateAfterMs,
        fallbackMs,
        flag,
      },
      name: row.name,
      schedule: compileSchedule(row.cron, row.time_zone, row.name, row.calendar),
      effectiveFrom: row.effective_from,
      decidedUntil: row.decided_until,
      now: row.now,
    };
  }

  /** The row of its own before a gap that covers it. */
  async standing({ jobName, fireTime }: RunKey): Promise<DeliveredStanding> {
    const { jobRuns } = this.database.tables;
    const [row] = await this.query<{
      status: RunStatus | null;
      reason: string | null;
      attempt: number;
      superseded: boolean;
    }>(
      `select own.status, own.reason, own.attempt,
              exists (
                select from ${jobRuns} newer
                where  newer.job_name = $1
                and    newer.fire_time > $2
                and    newer.fire_time <= clock_timestamp()
                and    newer.status <> 'skipped'
                and    newer.trigger in ('schedule', 'catch-up', 'external')) as superseded
       from  (select) as always
       left   join lateral (
                select status, reason, attempt
                from   ${jobRuns}
                where  job_name = $1
                and   (fire_time = $2 or gap_from <= $2 and fire_time > $2)
                order  by fire_time
                limit  1) own on true`,
      [jobName, fireTime.toISOString()],
    );
    const { status, reason, attempt, superseded } = row!;
    return { row: status && { status, reason, attempt }, isSuperseded: superseded };
  }

  /**
   * Decides about an occurrence by the same statement as a claim that is due: whoever comes second finds the row. What
   * is to run wakes all instances up: here may be no room, or nobody who runs it.
   * @param off why it is not to run, whatever else there is; null when nothing says so
   */
  async take(job: DeliverableJob, fireTime: Date, off: string | null, delivery: Delivery): Promise<ClaimVerdict> {
    const due = {
      ...dueFacts({ ...job, leaseMs: 0 }, off),
      jobName: job.name,
      fireTime,
      startsAt: fireTime,
      // Nothing else decides about it: there is no watermark that would cover it.
      byHand: this.isUnwatched(job),
      delivery,
    };
    const { answers } = await this.claims.claimDue([due], '');
    if (this.isUnwatched(job)) await this.forgetThePast(job);
    const verdict = answers[0]?.verdict ?? 'taken';
    // It is there, whoever hears of it.
    if (verdict === 'queued') await wakeUp(this.query, this.database.tables, 'runs').catch(() => {});
    return verdict;
  }

  private isUnwatched({ schedule, fallbackMs }: DeliverableJob): boolean {
    return schedule.isExternal && fallbackMs === null;
  }

  /**
   * What is too old to run is as good as decided: a rename or an edit has not to look through it. A delivery waits for
   * nobody because of that.
   */
  private async forgetThePast({ name, decidedUntil, now, catchUpWindowMs }: DeliverableJob): Promise<void> {
    const tooOld = now.getTime() - catchUpWindowMs;
    if (decidedUntil.getTime() >= tooOld - SLACK_MS) return;
    const { jobSchedule } = this.database.tables;
    await this.query(
      `with free as (
         select name
         from   ${jobSchedule}
         where  name = $1
         and    decided_until < $2
         for    no key update skip locked
       )
       update ${jobSchedule} job
       set    decided_until = $2
       from   free
       where  job.name = free.name`,
      [name, new Date(tooOld).toISOString()],
    );
  }
}

interface DeliverableRow {
  name: string;
  cron: string;
  time_zone: string;
  calendar: string | null;
  policies: Omit<DeliverableJob, 'parallel'> & {
    maxParallel: number | null;
    concurrencyGroup: ConcurrencyGroup | null;
  };
  effective_from: Date;
  decided_until: Date;
  now: Date;
}
