import { Column, Entity, PrimaryColumn } from 'typeorm';
import { compileSchedule, type Schedule } from '../cron/schedule.js';
import { type Query, queryOn } from '../database/query.js';
import { unlessBusy } from '../database/retry.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import { renamedJob } from '../errors/errors.js';
import { noSuchJob } from '../jobs/stored-job.js';
import type { OverlapPolicy } from '../options/job-definition.js';
import type { RunStatus } from '../options/run.js';
import { type Standing, standingAmongNames, standingOf } from './backfill-plan.js';
import type { Tables } from '../database/tables.js';

/** A backfill that an operator asked for, and how far it has come. */
@Entity({ name: 'job_backfills' })
export class JobBackfill {
  @PrimaryColumn('uuid', { default: () => 'gen_random_uuid()' })
  id!: string;

  @Column('text', { name: 'job_name' })
  jobName!: string;

  /** Both ends belong to the range. */
  @Column('timestamptz', { name: 'range_from' })
  from!: Date;

  @Column('timestamptz', { name: 'range_to' })
  to!: Date;

  @Column('integer', { name: 'max_concurrent' })
  maxConcurrent!: number;

  /** Its runs may run beside others of their job, and others beside them. */
  @Column('boolean')
  beside!: boolean;

  /** It also runs again what has run already. */
  @Column('boolean')
  replay!: boolean;

  /** Every occurrence of the range up to here was queued or left alone. */
  @Column('timestamptz', { name: 'fed_until' })
  fedUntil!: Date;

  /** How many occurrences the range had when it was asked for. */
  @Column('integer')
  total!: number;

  /** How many of them were queued so far. */
  @Column('integer', { default: 0 })
  fed!: number;

  /** How many were passed over: they had run, or somebody else had them in hand. */
  @Column('integer', { name: 'left_alone', default: 0 })
  leftAlone!: number;

  @Column('text', { name: 'requested_by', nullable: true })
  requestedBy!: string | null;

  @Column('text', { nullable: true })
  reason!: string | null;

  @Column('timestamptz', { name: 'created_at', default: () => 'clock_timestamp()' })
  createdAt!: Date;

  @Column('timestamptz', { name: 'finished_at', nullable: true })
  finishedAt!: Date | null;

  @Column('timestamptz', { name: 'cancelled_at', nullable: true })
  cancelledAt!: Date | null;

  @Column('text', { name: 'cancelled_by', nullable: true })
  cancelledBy!: string | null;

  @Column('text', { name: 'cancelled_reason', nullable: true })
  cancelledReason!: string | null;
}

/** A backfill as it is asked for. */
export type NewBackfill = Pick<
  JobBackfill,
  'jobName' | 'from' | 'to' | 'maxConcurrent' | 'beside' | 'replay' | 'total' | 'requestedBy' | 'reason'
>;

/** How many runs of a backfill are where. */
export interface BackfillCounts {
  readonly queued: number;
  readonly running: number;
  /** Failed or orphaned: they wait for their next attempt. */
  readonly retrying: number;
  readonly done: number;
  readonly dead: number;
  readonly cancelled: number;
}

/** A backfill with what became of it so far. */
export type BackfillRow = JobBackfill & BackfillCounts;

/** Backfills as they are asked for, and what became of them. */
export class BackfillStore {
  private readonly query: Query;

  constructor(private readonly database: SchedulerDatabase) {
    this.query = queryOn(database.coordination);
  }

  /** The database's clock. */
  async now(): Promise<Date> {
    const [row] = await this.query<{ now: Date }>('select clock_timestamp() as now');
    return row!.now;
  }

  /**
   * The job as every replica follows it, whether this one declares it or not.
   * @throws NotFoundError, OperationRefusedError
   */
  async job(name: string): Promise<{ name: string; schedule: Schedule; overlap: OverlapPolicy }> {
    const { jobSchedule } = this.database.tables;
    const [row] = await this.query<{
      cron: string;
      zone: string;
      calendar: string | null;
      to: string | null;
      overlap: OverlapPolicy | null;
    }>(
      `select cron, time_zone as zone, calendar, yields_to as to, policies ->> 'overlap' as overlap
       from   ${jobSchedule}
       where  name = $1
       and    removed_at is null`,
      [name],
    );
    if (!row) throw await noSuchJob(this.query, jobSchedule, name);
    if (row.to !== null) throw renamedJob(name, row.to);
    return {
      name,
      schedule: compileSchedule(row.cron, row.zone, name, row.calendar),
      overlap: row.overlap ?? 'forbid',
    };
  }

  /**
   * Where the occurrences that have a row stand, also under a former name, by fire time in milliseconds. Both ends are
   * included.
   */
  async standings(jobName: string, from: Date, to: Date): Promise<Map<number, Standing>> {
    const { tables } = this.database;
    const rows = await this.query<{ fire_time: Date; status: RunStatus; attempt: number; reason: string | null }>(
      `select fire_time, status, attempt, reason
       from   ${tables.jobRuns}
       where  job_name = $1
       and    fire_time between $2 and $3`,
      [jobName, from.toISOString(), to.toISOString()],
    );
    const own = new Map(rows.map((row) => [row.fire_time.getTime(), row]));
    const elsewhere = await standingsElsewhere(this.query, tables, jobName, from, to);
    return new Map(
      [...own.keys(), ...elsewhere.keys()].map((at) => [at, standingAmongNames(own.get(at), elsewhere.get(at))]),
    );
  }

  /** Kept as what an operator did, too. @returns its id */
  async create(asked: NewBackfill): Promise<string> {
    const { jobName, from, to, maxConcurrent, beside, replay, total, requestedBy, reason } = asked;
    const range = { from: from.toISOString(), to: to.toISOString() };
    const details = JSON.stringify({ ...range, occurrences: total, replay });
    const [created] = await this.database.call<{ backfill_create_1: string }>('backfill_create_1', [
      ...[jobName, range.from, range.to, maxConcurrent, beside, replay, total],
      ...[requestedBy, reason, details],
    ]);
    return created!.backfill_create_1;
  }

  /** The backfills that are neither finished nor cancelled, oldest first; of jobs this instance knows alone. */
  active(jobNames: readonly string[]): Promise<{ id: string; jobName: string }[]> {
    return this.query(
      `select id, job_name as "jobName"
       from   ${this.database.tables.jobBackfills}
       where  finished_at is null
       and    cancelled_at is null
       and    job_name = any ($1::text[])
       order  by created_at`,
      [jobNames],
    );
  }

  /** Newest first. */
  async list(limit: number): Promise<BackfillRow[]> {
    return this.select('order by backfill.created_at desc, backfill.id limit $1', [limit]);
  }

  async find(id: string): Promise<BackfillRow | null> {
    // As text: an id that is no uuid is merely unknown.
    const [row] = await this.select('where backfill.id::text = $1', [id]);
    return row ?? null;
  }

  private select(which: string, parameters: unknown[]): Promise<BackfillRow[]> {
    const { jobRuns, jobBackfills } = this.database.tables;
    return this.query<BackfillRow>(
      `select backfill.id, backfill.job_name as "jobName", backfill.range_from as "from", backfill.range_to as "to",
              backfill.max_concurrent as "maxConcurrent", backfill.beside, backfill.replay, backfill.fed_until as "fedUntil",
              backfill.total, backfill.fed, backfill.left_alone as "leftAlone", backfill.requested_by as "requestedBy",
              backfill.reason, backfill.created_at as "createdAt", backfill.finished_at as "finishedAt",
              backfill.cancelled_at as "cancelledAt", backfill.cancelled_by as "cancelledBy",
              backfill.cancelled_reason as "cancelledReason", counted.*
       from   ${jobBackfills} backfill
       cross  join lateral (
         select count(*) filter (where status = 'queued')::integer as queued,
                count(*) filter (where status in ('running', 'fanned_out'))::integer as running,
                count(*) filter (where status in ('failed', 'orphaned'))::integer as retrying,
                count(*) filter (where status = 'done')::integer as done,
                count(*) filter (where status = 'dead')::integer as dead,
                count(*) filter (where status = 'cancelled')::integer as cancelled
         from   ${jobRuns} run
         where  run.backfill_id = backfill.id) counted
       ${which}`,
      parameters,
    );
  }
}

/** What a cancelled backfill leaves behind. */
interface CancelledBackfill {
  readonly jobName: string;
  /** Runs that waited and will not start. */
  readonly cancelled: number;
  /** Occurrences that had a row before and are again what they were. */
  readonly putBack: number;
}

/** Ends backfills early. */
export class BackfillCancelStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /**
   * Nothing more of the backfill is queued or started; what runs goes on.
   * @returns null when there is none that is still active
   */
  async cancel(
    id: string,
    jobName: string,
    by: string | null,
    reason: string | null,
  ): Promise<CancelledBackfill | null> {
    const said = `backfill cancelled${by ? ` by ${by}` : ''}${reason ? `: ${reason}` : ''}`;
    const [ended] = await unlessBusy('cancel a backfill of', `job "${jobName}"`, () =>
      this.database.call<{ cancelled_runs: number; put_back: number }>('backfill_cancel_1', [
        id,
        jobName,
        by,
        reason,
        said,
      ]),
    );
    return ended ? { jobName, cancelled: ended.cancelled_runs, putBack: ended.put_back } : null;
  }
}

/** Of one occurrence that has rows under several names, the last of these. */
const COUNTS: readonly Standing[] = ['never ran', 'ran', 'under way'];

/**
 * Where occurrences stand that have a row under a name that the job had before, by fire time in milliseconds. Those
 * names all yield to the one that holds now.
 */
export async function standingsElsewhere(
  query: Query,
  { jobRuns, jobSchedule }: Tables,
  jobName: string,
  from: Date,
  to: Date,
): Promise<Map<number, Standing>> {
  const rows = await query<{ fire_time: Date; status: RunStatus; attempt: number }>(
    `select run.fire_time, run.status, run.attempt
     from   ${jobSchedule} former
     join   ${jobRuns} run on run.job_name = former.name
     where  former.yields_to = $1
     and    run.fire_time between $2 and $3`,
    [jobName, from.toISOString(), to.toISOString()],
  );
  const standings = new Map<number, Standing>();
  for (const row of rows) {
    const at = row.fire_time.getTime();
    const [known, standing] = [standings.get(at) ?? 'never ran', standingOf(row)];
    standings.set(at, COUNTS.indexOf(standing) > COUNTS.indexOf(known) ? standing : known);
  }
  return standings;
}
