import { Injectable } from '@nestjs/common';
import { isExternalCalendar } from '../cron/calendar.js';
import { compileSchedule } from '../cron/schedule.js';
import { type Query, queryOn } from '../database/query.js';
import { AfterRegistration } from '../database/registration.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import { KnownJobs } from '../jobs/known-jobs.js';
import type { JobTrigger } from '../options/job-definition.js';
import type { RunStatus } from '../options/run.js';
import { type FlagAnswer, FlagAnswers } from '../runs/flag-answers.js';

/** A job as the database has it. */
export interface InventoryRow {
  readonly name: string;
  readonly owner: string | null;
  readonly cron: string;
  readonly timeZone: string;
  readonly calendar: string | null;
  readonly policies: Readonly<Record<string, unknown>>;
  readonly handler: string | null;
  readonly enabled: boolean;
  /** Now; a pause that is over is none. */
  readonly paused: boolean;
  readonly pausedAt: Date | null;
  readonly pausedUntil: Date | null;
  readonly pausedBy: string | null;
  readonly pausedReason: string | null;
  readonly overriddenAt: Date | null;
  readonly overriddenBy: string | null;
  readonly overriddenReason: string | null;
  readonly flagIsOff: boolean;
  readonly yieldsTo: string | null;
  readonly removedAt: Date | null;
  readonly effectiveFrom: Date;
  /** Live instances that can run it. */
  readonly instances: number;
  readonly waiting: number;
  readonly running: number;
  readonly dead: number;
  readonly last: LastRun | null;
}

/** The newest occurrence that was started. */
export interface LastRun {
  readonly fireTime: Date;
  readonly status: RunStatus;
  readonly startedAt: Date;
  readonly finishedAt: Date | null;
}

/** Lists jobs; writes nothing. */
export class InventoryStore {
  private readonly query: Query;

  constructor(private readonly database: SchedulerDatabase) {
    this.query = queryOn(database.coordination);
  }

  /** By name, and the database's clock. */
  async jobs(): Promise<{ now: Date; jobs: InventoryRow[] }> {
    const { jobSchedule, jobRuns, jobInstances } = this.database.tables;
    const [clock] = await this.query<{ now: Date }>('select clock_timestamp() as now');
    const jobs = await this.query<Omit<InventoryRow, 'last'> & { last: StoredLastRun | null }>(
      `select job.name, job.owner, job.cron, job.time_zone as "timeZone", job.calendar, job.policies, job.handler, job.enabled,
              ${this.database.tables.qualify('job_is_paused_1')}(job.paused_at, job.paused_until) as paused,
              job.paused_at as "pausedAt", job.paused_until as "pausedUntil", job.paused_by as "pausedBy", job.paused_reason as "pausedReason",
              job.overridden_at as "overriddenAt", job.overridden_by as "overriddenBy", job.overridden_reason as "overriddenReason",
              ${this.database.tables.qualify('flag_is_off_1')}(job.policies ->> 'flag') as "flagIsOff",
              job.yields_to as "yieldsTo", job.removed_at as "removedAt", job.effective_from as "effectiveFrom",
             (select count(*)::integer
              from   ${jobInstances} instance
              where  instance.alive_until > clock_timestamp()
              and   (instance.jobs ? job.name or instance.handlers ? job.handler)) as instances,
              coalesce(open.waiting, 0) as waiting, coalesce(open.running, 0) as running, coalesce(open.dead, 0) as dead,
              last.last
       from   ${jobSchedule} job
       -- Each part by the index that has just its rows: all that are done are many.
       left   join (select job_name,
                           count(*) filter (where status not in ('running', 'fanned_out', 'dead'))::integer as waiting,
                           count(*) filter (where status in ('running', 'fanned_out'))::integer as running,
                           count(*) filter (where status = 'dead')::integer as dead
                    from  (select job_name, status from ${jobRuns} where status in ('queued', 'failed', 'orphaned')
                           union all
                           select job_name, status from ${jobRuns} where status in ('running', 'fanned_out')
                           union all
                           select job_name, status from ${jobRuns} where status = 'dead') unfinished
                    group  by job_name) open on open.job_name = job.name
       left   join lateral (select jsonb_build_object('fireTime', run.fire_time, 'status', run.status, 'startedAt', run.started_at, 'finishedAt', run.finished_at) as last
                            from   ${jobRuns} run
                            where  run.job_name = job.name
                            and    run.started_at is not null
                            order  by run.fire_time desc
                            limit  1) last on true
       order  by job.name`,
    );
    return { now: clock!.now, jobs: jobs.map((job) => ({ ...job, last: job.last && lastRun(job.last) })) };
  }
}

type StoredLastRun = { fireTime: string; status: RunStatus; startedAt: string; finishedAt: string | null };

function lastRun({ fireTime, status, startedAt, finishedAt }: StoredLastRun): LastRun {
  return {
    fireTime: new Date(fireTime),
    status,
    startedAt: new Date(startedAt),
    finishedAt: finishedAt === null ? null : new Date(finishedAt),
  };
}

/**
 * `active`: a live instance can run it. `unregistered`: none declares it, and it does not run. `removed`: it was made
 * at run time, and taken out. `renamed`: its occurrences are decided under another name.
 */
export type JobState = 'active' | 'unregistered' | 'removed' | 'renamed';

/**
 * One job, with its answers to the three questions: who owns it, what happens when runs overlap, what to those missed.
 */
export interface InventoryEntry {
  readonly name: string;
  readonly state: JobState;
  /** The name to look at instead, of one that is renamed. */
  readonly renamedTo: string | null;
  readonly owner: string | null;
  readonly overlap: string | null;
  readonly missed: string | null;
  /** Which of the three are only a default. */
  readonly implicit: readonly string[];
  /** Where it is declared: `InvoiceService.export`; for a job made at run time, its handler. */
  readonly declaredBy: string | null;
  /** What holds, on every replica. */
  readonly cron: string;
  readonly timeZone: string;
  /** Who fires it. */
  readonly trigger: JobTrigger;
  /** What `startAt`, `endAt` and `exclude` leave out; an external trigger is noted here, too. */
  readonly calendar: string | null;
  readonly enabled: boolean;
  readonly paused: {
    readonly since: Date;
    readonly until: Date | null;
    readonly by: string | null;
    readonly reason: string | null;
  } | null;
  /**
   * An operator's schedule is in place of the declared one; `declared` is what this instance's code says, if it knows
   * the job.
   */
  readonly overridden: {
    readonly at: Date;
    readonly by: string | null;
    readonly reason: string | null;
    readonly declared: { readonly cron: string; readonly timeZone: string } | null;
  } | null;
  /** `on`: as it holds on this instance; by the table, and by the application's provider, null where there is none. */
  readonly flag: {
    readonly name: string;
    readonly on: boolean;
    readonly onInTable: boolean;
    readonly provider: FlagAnswer | null;
  } | null;
  /** When the schedule fires next; null when never, or when the job does not run: held back, or not active. */
  readonly nextFireTime: Date | null;
  /** The newest occurrence that was started. */
  readonly lastRun: LastRun | null;
  readonly running: number;
  readonly waiting: number;
  readonly dead: number;
}

/** What there is. */
@Injectable()
@AfterRegistration()
export class Inventory {
  constructor(
    private readonly store: InventoryStore,
    private readonly known: KnownJobs,
    private readonly answers: FlagAnswers,
  ) {}

  /** See `SchedulerService.inventory`. */
  async inventory(): Promise<InventoryEntry[]> {
    const { now, jobs } = await this.store.jobs();
    const answers = await this.answers.shown([...new Set(jobs.flatMap((job) => flagOf(job) ?? []))]);
    return jobs.map((job) => this.entry(job, now, answers.get(flagOf(job) ?? '') ?? null));
  }

  private entry(job: InventoryRow, now: Date, provider: FlagAnswer | null): InventoryEntry {
    const { policies } = job;
    const state = stateOf(job);
    const text = (name: string) => (typeof policies[name] === 'string' ? policies[name] : null);
    const flag = flagOf(job);
    const on = !job.flagIsOff && provider?.on !== false;
    const runs = state === 'active' && job.enabled && !job.paused && on;
    return {
      name: job.name,
      state,
      renamedTo: job.yieldsTo,
      owner: job.owner,
      overlap: text('overlap'),
      missed: text('missed'),
      implicit: Array.isArray(policies['implicit']) ? policies['implicit'] : [],
      declaredBy: job.handler === null ? text('declaredBy') : `@DistributedCronHandler(${JSON.stringify(job.handler)})`,
      cron: job.cron,
      timeZone: job.timeZone,
      trigger: isExternalCalendar(job.calendar) ? 'external' : 'schedule',
      calendar: job.calendar,
      enabled: job.enabled,
      paused: job.paused
        ? { since: job.pausedAt!, until: job.pausedUntil, by: job.pausedBy, reason: job.pausedReason }
        : null,
      overridden: job.overriddenAt && {
        at: job.overriddenAt,
        by: job.overriddenBy,
        reason: job.overriddenReason,
        declared: this.declared(job.name),
      },
      flag: flag === null ? null : { name: flag, on, onInTable: !job.flagIsOff, provider },
      nextFireTime: runs ? nextFireTime(job, now) : null,
      lastRun: job.last,
      running: job.running,
      waiting: job.waiting,
      dead: job.dead,
    };
  }

  private declared(name: string): { cron: string; timeZone: string } | null {
    const schedule = this.known.declaredJob(name)?.definition.schedule;
    return schedule ? { cron: schedule.expression, timeZone: schedule.timeZone } : null;
  }
}

function flagOf({ policies }: InventoryRow): string | null {
  return typeof policies['flag'] === 'string' ? policies['flag'] : null;
}

function stateOf({ removedAt, yieldsTo, instances }: InventoryRow): JobState {
  if (removedAt) return 'removed';
  if (yieldsTo !== null) return 'renamed';
  return instances > 0 ? 'active' : 'unregistered';
}

/**
 * Null also for a schedule that cannot be read here: a newer version of this library, or a person, may have stored it.
 */
function nextFireTime({ name, cron, timeZone, calendar }: InventoryRow, now: Date): Date | null {
  try {
    const next = compileSchedule(cron, timeZone, name, calendar).nextAfter(now.getTime());
    return next === null ? null : new Date(next);
  } catch {
    return null;
  }
}
