import type { Schedule } from '../cron/schedule.js';
import type { FunctionValue, SchedulerDatabase } from '../database/scheduler-database.js';
import { type Query, queryOn } from '../database/query.js';
import { wakingUp } from '../database/tables.js';
import type { JobDefinition } from '../options/job-definition.js';
import { timeZoneOf } from '../cron/time-zone.js';

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
  return numberOfNames(
    jobs.map(({ name }) => name),
    handlers,
  );
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

  /**
   * The process takes no more part: nobody has to wait until it is taken for gone, and the others look at once whose
   * its jobs are.
   */
  async leave(instanceId: string): Promise<void> {
    const { tables } = this.database;
    await this.query(`delete from ${tables.jobInstances} where id = $1 returning ${wakingUp(tables, 'jobs')}`, [
      instanceId,
    ]);
  }

  /** The handlers that live instances have for jobs made at run time. */
  async handlers(): Promise<string[]> {
    const rows = await this.query<{ handler: string }>(
      `select distinct jsonb_array_elements_text(case jsonb_typeof(handlers) when 'array' then handlers else '[]' end) as handler
       from   ${this.database.tables.jobInstances}
       where  alive_until > clock_timestamp()
       order  by 1`,
    );
    return rows.map(({ handler }) => handler);
  }

  /**
   * The jobs that no live instance declares any more, nor is about to take over under another name; also those made at
   * run time whose `handler` nobody has. They are not run.
   */
  async unregistered(): Promise<UnregisteredJob[]> {
    const rows = await this.database.call<{ name: string; cron: string; time_zone: string; handler: string | null }>(
      'job_schedule_unregistered_1',
      [],
    );
    return rows.map(({ name, cron, time_zone: timeZone, handler }) => ({ name, cron, timeZone, handler }));
  }
}

/** What an instance says of itself beside its jobs; null: it does not know, or is of a release that does not say. */
interface InstanceFacts {
  readonly application: string | null;
  readonly tz: string | null;
  readonly icu: string | null;
  readonly zones: RulesOfZones | null;
}

/** Another live instance. */
export interface OtherInstance extends Omit<InstanceFacts, 'icu'> {
  readonly id: string;
  /**
   * Of those that were asked for, the jobs and handlers that it declares; none where it is of the same application, or
   * of an unknown one.
   */
  readonly jobs: readonly string[];
  readonly handlers: readonly string[];
}

/** What live instances say of themselves beside their jobs. */
export class InstanceFactsStore {
  private readonly query: Query;

  constructor(private readonly database: SchedulerDatabase) {
    this.query = queryOn(database.coordination);
  }

  /**
   * Says of this instance what is true of it, and asks for all other live ones.
   * @param jobs names that must not be another application's, as those of `handlers`
   */
  async exchange(
    instanceId: string,
    facts: InstanceFacts,
    { jobs, handlers }: Pick<OtherInstance, 'jobs' | 'handlers'>,
  ): Promise<OtherInstance[]> {
    const { jobInstances } = this.database.tables;
    return this.query(
      `with me as (
         update ${jobInstances}
         set    application = $2,
                tz = $3,
                icu = $4,
                zones = $5
         where  id = $1
       )
       select other.id,
              other.application,
              other.tz,
              other.zones,
              array(select name from unnest($6::text[]) as name where other.application <> $2 and other.jobs ? name order by name) as jobs,
              array(select name from unnest($7::text[]) as name where other.application <> $2 and other.handlers ? name order by name) as handlers
       from   ${jobInstances} other
       where  other.id <> $1
       and    other.alive_until > clock_timestamp()
       order  by other.id`,
      [instanceId, facts.application, facts.tz, facts.icu, facts.zones && JSON.stringify(facts.zones), jobs, handlers],
    );
  }
}

/** A number for all that an instance can run: the same for the same names, in any order, and hardly ever for others. */
function numberOfNames(jobNames: readonly string[], handlers: readonly string[]): number {
  const hashes = [
    ...jobNames.map((name) => textHash(`job ${name}`)),
    ...handlers.map((name) => textHash(`handler ${name}`)),
  ];
  return hashes.reduce((sum, hash) => (sum ^ hash) >>> 0, 0);
}

/** By calendar year (UTC): a number for the offset with which it begins and all changes of the clock in it. */
type ZoneRules = Readonly<Record<string, number>>;

/** The rules of zones, by their names. */
export type RulesOfZones = Readonly<Record<string, ZoneRules>>;

/** The rules of a zone in the year of an instant and in the next, as the time-zone data of this process have them. */
export function zoneRules(timeZone: string, epochMs: number): ZoneRules {
  const year = new Date(epochMs).getUTCFullYear();
  return Object.fromEntries([year, year + 1].map((each) => [each, rulesOfYear(timeZone, each)]));
}

/** The zones that both know, and whose rules differ in a year that both know. */
export function differingZones(own: RulesOfZones, other: RulesOfZones): string[] {
  return Object.keys(own).filter((zone) =>
    Object.entries(own[zone]!).some(([year, rules]) => {
      const there = other[zone]?.[year];
      return there !== undefined && there !== rules;
    }),
  );
}

function rulesOfYear(timeZone: string, year: number): number {
  const zone = timeZoneOf(timeZone);
  const end = Date.UTC(year + 1, 0);
  let period = zone.periodAt(Date.UTC(year, 0));
  const rules = [`from ${period.offsetMs}`];
  while (period.endMs < end) {
    const { offsetMs } = period;
    period = zone.periodAt(period.endMs);
    if (period.offsetMs !== offsetMs) rules.push(`${period.startMs} to ${period.offsetMs}`);
  }
  return textHash(rules.join(', '));
}

const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

/** A 32-bit number of a text, the same everywhere (FNV-1a over its UTF-16 units). For spreading, not for secrets. */
export function textHash(text: string): number {
  let hash = FNV_OFFSET;
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), FNV_PRIME);
  return mixed(hash);
}

/**
 * Spreads a 32-bit number over all of its bits, so that numbers that are near each other are far apart (the finalizer
 * of MurmurHash3).
 */
export function mixed(value: number): number {
  let hash = value >>> 0;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
