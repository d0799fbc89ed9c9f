import type { Query } from '../database/query.js';
import type { Tables } from '../database/tables.js';
import { nearestTo, NotFoundError, unknownJob } from '../errors/errors.js';
import type { JobDefinition } from '../options/job-definition.js';

/** A job as `job_schedule` has it: what every replica follows, whatever its own code declares. */
export interface StoredJob {
  readonly name: string;
  readonly cron: string;
  readonly timeZone: string;
  /** See `Schedule.calendar`. */
  readonly calendar: string | null;
  /**
   * The expression and the zone are an operator's: they hold until the override is cleared, whatever the code declares.
   */
  readonly overridden: boolean;
  /** Every due occurrence up to here has a row. Milliseconds; a lower bound. */
  readonly decidedUntil: number;
  /** The name under which its occurrences are decided instead; null for almost all. */
  readonly yieldsTo: string | null;
  readonly removed: boolean;
  /** What held it back when it was read. */
  readonly held: StoredHold | null;
  /** What makes it a job made at run time; null for one that the code declares. */
  readonly runTime: RunTimeParts | null;
  readonly revision: number;
}

/** What the database keeps of a job that was made at run time. */
export interface RunTimeParts {
  /** The `@DistributedCronHandler` that runs it. */
  readonly handler: string;
  /** As they were given, the zone among them. */
  readonly options: Readonly<Record<string, unknown>>;
  readonly data: unknown;
}

/**
 * An operator's hold on a job. `since` is null where nobody noted it, `until` where it lasts until somebody ends it.
 */
interface StoredHold {
  readonly hold: 'paused' | 'disabled';
  readonly since: Date | null;
  readonly until: Date | null;
  readonly by: string | null;
  readonly reason: string | null;
}

/** The columns that {@link storedJob} reads. */
export const storedJobColumns = (tables: Tables): string =>
  `name, cron, time_zone, calendar, overridden_at, decided_until, yields_to, removed_at, handler, options, data, revision,
              enabled, disabled_at, paused_until, paused_by, paused_reason,
              case when ${tables.qualify('job_is_paused_1')}(paused_at, paused_until) then paused_at end as pausing_since`;

/** A row with {@link storedJobColumns}. */
export interface StoredJobRow {
  name: string;
  cron: string;
  time_zone: string;
  calendar: string | null;
  overridden_at: Date | null;
  decided_until: Date;
  yields_to: string | null;
  removed_at: Date | null;
  handler: string | null;
  options: Record<string, unknown> | null;
  data: unknown;
  revision: string;
  enabled: boolean;
  disabled_at: Date | null;
  paused_until: Date | null;
  paused_by: string | null;
  paused_reason: string | null;
  pausing_since: Date | null;
}

export function storedJob(row: StoredJobRow): StoredJob {
  return {
    name: row.name,
    cron: row.cron,
    timeZone: row.time_zone,
    calendar: row.calendar,
    overridden: row.overridden_at !== null,
    decidedUntil: row.decided_until.getTime(),
    yieldsTo: row.yields_to,
    removed: row.removed_at !== null,
    held: heldBy(row),
    runTime: row.handler === null ? null : { handler: row.handler, options: row.options!, data: row.data ?? undefined },
    revision: Number(row.revision),
  };
}

/** A job that is disabled as well as paused waits for more than the end of its pause. */
function heldBy({
  enabled,
  disabled_at,
  pausing_since,
  paused_until,
  paused_by,
  paused_reason,
}: StoredJobRow): StoredHold | null {
  if (!enabled) return { hold: 'disabled', since: disabled_at, until: null, by: null, reason: null };
  return (
    pausing_since && { hold: 'paused', since: pausing_since, until: paused_until, by: paused_by, reason: paused_reason }
  );
}

/** What people read in `job_schedule.policies`; the definition that an instance has is what counts. */
export function storedPolicies(job: JobDefinition): Record<string, unknown> {
  const {
    overlap,
    parallel: maxParallel,
    queueLimit,
    concurrencyGroup,
    missed,
    catchUpWindowMs,
    maxCatchUp,
    lateAfterMs,
    leaseMs,
    renewEveryMs,
    jitterMs,
    maxAttempts,
    backoff,
  } = job;
  const { budgetMs, timeoutMs, maxRunTimeMs, expectSuccessWithinMs, flag, flagOff, fallbackMs, implicit, declaredBy } =
    job;
  const retry = backoff.kind === 'function' ? { kind: 'function' } : backoff;
  return {
    ...{ overlap, maxParallel, queueLimit, concurrencyGroup },
    ...{
      missed,
      catchUpWindowMs,
      maxCatchUp,
      lateAfterMs,
      leaseMs,
      renewEveryMs,
      jitterMs,
      maxAttempts,
      backoff: retry,
    },
    ...{ budgetMs, timeoutMs, maxRunTimeMs, expectSuccessWithinMs, flag, flagOff, fallbackMs, implicit, declaredBy },
  };
}

/** A job as it was read, to be changed if it is still so. */
export interface JobAsRead {
  readonly stored: StoredJob;
  /** Another with every change of its row. */
  readonly seen: string;
  /** The database's clock when it was read. */
  readonly now: Date;
}

/** @returns null where no row has the name */
export async function readJob(query: Query, tables: Tables, name: string): Promise<JobAsRead | null> {
  const [row] = await query<StoredJobRow & { seen: string; now: Date }>(
    `select ${storedJobColumns(tables)}, xmin::text as seen, clock_timestamp() as now from ${tables.jobSchedule} where name = $1`,
    [name],
  );
  return row ? { stored: storedJob(row), seen: row.seen, now: row.now } : null;
}

/** The error for a name that no job has, which says what was most likely meant. */
export async function noSuchJob(query: Query, jobSchedule: string, name: string): Promise<NotFoundError> {
  const known = await query<{ name: string }>(`
    select name
    from   ${jobSchedule}
    where  removed_at is null
    and    yields_to is null
    order  by name
    limit  1000`);
  return unknownJob(
    name,
    nearestTo(
      name,
      known.map((job) => job.name),
    ),
  );
}
