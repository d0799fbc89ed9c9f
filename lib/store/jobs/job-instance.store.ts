import { numberOfNames } from '../../domain/declared-names.js';
import type { JobDefinition } from '../../domain/job-definition.js';
import type { Schedule } from '../../domain/schedule/schedule.js';
import type { FunctionValue } from '../connection/one-message.js';
import { queryOn, type Query } from '../connection/query.js';
import { wakingUp } from '../wake-up.js';
import type { SchedulerDatabase } from '../scheduler-database.js';

/** A process that takes part. */
export interface Presence {
  readonly instanceId: string;
  /** How long it is taken to be there after each time it says so, in milliseconds. */
  readonly aliveMs: number;
  /** What its code declares. */
  readonly jobs: readonly JobDefinition[];
  /** The handlers it has for jobs made at run time. */
  readonly handlers: readonly string[];
}

/** See `JobInstance.declares`. */
export function declaredNumber({ jobs, handlers }: Presence): number {
  return numberOfNames(jobs.map(({ name }) => name), handlers);
}

/** As functions of the database take it. */
export function presenceValues(presence: Presence): FunctionValue[] {
  const { instanceId, aliveMs, jobs, handlers } = presence;
  return [
    instanceId,
    JSON.stringify(Object.fromEntries(jobs.map(({ name, schedule }) => [name, declaredSchedule(schedule)]))),
    JSON.stringify(handlers),
    declaredNumber(presence),
    aliveMs,
  ];
}

/** A schedule as an instance says that it declares it: without a calendar, as versions that know of none do. */
function declaredSchedule({ expression, timeZone, calendar }: Schedule): string[] {
  return calendar === null ? [expression, timeZone] : [expression, timeZone, calendar];
}

/** A job that no live instance can run. */
export interface UnregisteredJob {
  readonly name: string;
  readonly cron: string;
  readonly timeZone: string;
  /** Of a job made at run time: what would run it. */
  readonly handler: string | null;
}


/** Says that this process is there and what it declares, and that it goes. */
export class JobInstanceStore {
  private readonly query: Query;

  constructor(private readonly database: SchedulerDatabase) {
    this.query = queryOn(database.coordination);
  }

  /** The others look at once, for with every one that comes other jobs are theirs. */
  async announce(presence: Presence): Promise<void> {
    await this.database.call('job_instance_announce_1', presenceValues(presence));
  }

  /** The process takes no more part: nobody has to wait until it is taken for gone, and the others look at once whose its jobs are. */
  async leave(instanceId: string): Promise<void> {
    const { tables } = this.database;
    await this.query(`delete from ${tables.jobInstances} where id = $1 returning ${wakingUp(tables, 'jobs')}`, [instanceId]);
  }

  /** The handlers that live instances have for jobs made at run time. */
  async handlers(): Promise<string[]> {
    const rows = await this.query<{ handler: string }>(
      `select distinct jsonb_array_elements_text(handlers) as handler
       from   ${this.database.tables.jobInstances}
       where  alive_until > clock_timestamp()
       order  by 1`,
    );
    return rows.map(({ handler }) => handler);
  }

  /**
   * The jobs that no live instance declares any more, nor is about to take over under another name; also those made at run
   * time whose `handler` nobody has. They are not run.
   */
  async unregistered(): Promise<UnregisteredJob[]> {
    const rows = await this.database.call<{ name: string; cron: string; time_zone: string; handler: string | null }>('job_schedule_unregistered_1', []);
    return rows.map(({ name, cron, time_zone: timeZone, handler }) => ({ name, cron, timeZone, handler }));
  }
}
