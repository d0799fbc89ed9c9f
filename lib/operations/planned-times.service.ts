import { Injectable } from '@nestjs/common';
import { calendarText } from '../cron/calendar.js';
import { compileSchedule, type Schedule } from '../cron/schedule.js';
import { DatabaseTime } from '../database/clock.js';
import { AfterRegistration } from '../database/registration.js';
import { unknownJobHere } from '../errors/errors.js';
import { KnownJobs } from '../jobs/known-jobs.js';
import { ExplainStore, type StoredSchedule } from './explain.store.js';
import type { Explanation, ExplanationFacts } from './explanation-facts.js';
import { explanationOf } from './explanation.js';
import { given, instant, jobNameOf, readOperationOptions } from '../options/operator-options.js';
import { integer, type OptionTable, type Reading } from '../options/option-rules.js';

const FIRE_TIMES_BY_DEFAULT = 5;

const OPTIONS = {
  count: { rule: integer({ atLeast: 1, atMost: 10_000 }) },
  from: { rule: validDate },
} as const satisfies Record<keyof NextFireTimesOptions, OptionTable[string]>;

/** Which fire times are asked for. */
export interface NextFireTimesOptions {
  /** 1 to 10000. @default 5 */
  count?: number;
  /** Exclusive. @default now, by the database's clock */
  from?: Date;
}

/** Says what became of a planned time, and why; and which come next. */
@Injectable()
@AfterRegistration()
export class PlannedTimes {
  constructor(
    private readonly store: ExplainStore,
    private readonly jobs: KnownJobs,
    private readonly time: DatabaseTime,
  ) {}

  /** See `SchedulerService.explain`. */
  async explain(jobName: string, fireTime: Date): Promise<Explanation> {
    const verb = 'SchedulerService.explain';
    const key = { jobName: jobNameOf(jobName, verb), fireTime: given(fireTime, instant, `${verb}: fireTime`) };
    const { storedSchedule, ...facts } = await this.store.facts(key);
    return explanationOf({ ...facts, schedule: storedSchedule && around(storedSchedule, key) });
  }

  /** See `SchedulerService.nextFireTimes`. */
  next(jobName: string, options?: NextFireTimesOptions): Date[] {
    const job = this.jobs.get(jobName)?.definition;
    if (!job) throw unknownJobHere(jobName, this.jobs.names());
    const read = readOperationOptions(options, OPTIONS, `nextFireTimes of job "${jobName}"`);
    const { count = FIRE_TIMES_BY_DEFAULT, from = new Date(this.time.now()) } = read;
    return job.schedule.between(from.getTime(), Infinity, count).map((fireTime) => new Date(fireTime));
  }
}

/** Null for a schedule that cannot be read here: a newer version of this library, or a person, may have stored it. */
function around(
  { cron, timeZone, calendar }: StoredSchedule,
  { jobName, fireTime }: { jobName: string; fireTime: Date },
): ExplanationFacts['schedule'] {
  try {
    const schedule = compileSchedule(cron, timeZone, jobName, calendar);
    const at = fireTime.getTime();
    const [before, after] = [schedule.previousBefore(at), schedule.nextAfter(at)].map((found) =>
      found === null ? null : new Date(found),
    );
    return {
      fires: schedule.nextAfter(at - 1) === at,
      isExternal: schedule.isExternal,
      leftOutBy: leftOutBy(schedule, at, jobName),
      before: before!,
      after: after!,
    };
  } catch {
    return null;
  }
}

/**
 * Which rule of its calendar keeps a schedule from firing at a time at which its expression has a fire time.
 * @param at epoch milliseconds
 * @param jobName spreads `H`
 * @returns null when no rule does
 */
export function leftOutBy({ expression, timeZone, calendar }: Schedule, at: number, jobName: string): string | null {
  const firesBy = (rules: string | null) =>
    compileSchedule(expression, timeZone, jobName, rules).nextAfter(at - 1) === at;
  if (calendar === null || firesBy(calendar) || !firesBy(null)) return null;
  const {
    startAt,
    endAt,
    exclude = [],
  } = JSON.parse(calendar) as { startAt?: string; endAt?: string; exclude?: string[] };
  if (startAt !== undefined && at < Date.parse(startAt)) return `startAt: ${startAt}`;
  if (endAt !== undefined && at >= Date.parse(endAt)) return `endAt: ${endAt}`;
  const day = exclude.find((item) => !firesBy(calendarText({ exclude: [item] })));
  return day === undefined ? null : `exclude: ${day}`;
}

function validDate(given: unknown): Reading<Date> {
  return given instanceof Date && Number.isFinite(given.getTime())
    ? { value: given }
    : { problem: `expected a valid Date, got ${String(given)}` };
}
