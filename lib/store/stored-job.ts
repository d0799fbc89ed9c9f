/** A job as `job_schedule` has it: what every replica follows, whatever its own code declares. */
export interface StoredJob {
  readonly name: string;
  readonly cron: string;
  readonly timeZone: string;
  /** See `Schedule.calendar`. */
  readonly calendar: string | null;
  /** The expression and the zone are an operator's: they hold until the override is cleared, whatever the code declares. */
  readonly overridden: boolean;
  /** Every due occurrence up to here has a row. Milliseconds; a lower bound. */
  readonly decidedUntil: number;
  /** The name under which its occurrences are decided instead; null for almost all. */
  readonly yieldsTo: string | null;
  readonly removed: boolean;
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

/** The columns that {@link storedJob} reads. */
export const STORED_JOB_COLUMNS = 'name, cron, time_zone, calendar, overridden_at, decided_until, yields_to, removed_at, handler, options, data, revision';

/** A row with {@link STORED_JOB_COLUMNS}. */
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
    runTime: row.handler === null ? null : { handler: row.handler, options: row.options!, data: row.data ?? undefined },
    revision: Number(row.revision),
  };
}
