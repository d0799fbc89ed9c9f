import { numberOfNames } from '../../domain/declared-names.js';
import type { JobDefinition } from '../../domain/job-definition.js';
import { queryOn, type Query } from '../connection/query.js';
import { declaredSchedule } from './schedule-as-declared.js';
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

/** A job that no live instance can run. */
export interface UnregisteredJob {
  readonly name: string;
  readonly cron: string;
  readonly timeZone: string;
  /** Of a job made at run time: what would run it. */
  readonly handler: string | null;
}

/** Those that have not been heard of for so long are forgotten. */
const FORGOTTEN_AFTER = '1 day';

/** Says that this process is there and what it declares, and that it goes. */
export class JobInstanceStore {
  private readonly query: Query;

  constructor(private readonly database: SchedulerDatabase) {
    this.query = queryOn(database.coordination);
  }

  /** The others look at once, for with every one that comes other jobs are theirs. @param query of the transaction in which it is to be seen */
  async announce(presence: Presence, query = this.query): Promise<void> {
    const { instanceId, aliveMs, jobs, handlers } = presence;
    const { tables } = this.database;
    const { jobInstances } = tables;
    await query(`delete from ${jobInstances} where alive_until < clock_timestamp() - interval '${FORGOTTEN_AFTER}'`);
    await query(
      `insert into ${jobInstances} (id, jobs, handlers, declares, alive_until)
       values ($1, $2, $3, $5, clock_timestamp() + $4 * interval '1 millisecond')
       on     conflict (id) do update
       set    jobs = excluded.jobs,
              handlers = excluded.handlers,
              declares = excluded.declares,
              alive_until = excluded.alive_until
       returning ${wakingUp(tables, 'jobs')}`,
      [
        instanceId,
        JSON.stringify(Object.fromEntries(jobs.map(({ name, schedule }) => [name, declaredSchedule(schedule)]))),
        JSON.stringify(handlers),
        aliveMs,
        declaredNumber(presence),
      ],
    );
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
    const { jobSchedule, jobInstances } = this.database.tables;
    return this.query(
      `select name, cron, time_zone as "timeZone", handler
       from   ${jobSchedule} schedule
       where  removed_at is null
       and    yields_to is null
       and    not exists (
                select from ${jobInstances} instance
                where  alive_until > clock_timestamp()
                and   (instance.jobs ? schedule.name or instance.handlers ? schedule.handler))
       and    not exists (
                select from ${jobSchedule} waiting
                join   ${jobInstances} instance on instance.jobs ? waiting.name
                where  waiting.yields_to = schedule.name
                and    instance.alive_until > clock_timestamp())
       order  by name`,
    );
  }
}
