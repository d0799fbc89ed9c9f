import { type Schedule, compileSchedule } from '../cron/schedule.js';
import type { Query } from '../database/query.js';
import type { Tables } from '../database/tables.js';
import type { SkipReason } from '../options/run.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';

/**
 * Fire times that have a decision already: a row's own, or all that its gap covers. Milliseconds, both ends included.
 */
export interface DecidedSpan {
  readonly from: number;
  readonly until: number;
}

/** The fire times later than `from` and not later than `until` that no span covers. Spans are passed over whole. */
export class UndecidedFireTimes {
  private readonly spans: readonly DecidedSpan[];

  constructor(
    private readonly schedule: Schedule,
    private readonly from: number,
    private readonly until: number,
    decided: readonly DecidedSpan[],
  ) {
    this.spans = merged(decided.filter((span) => span.until > from && span.from <= until));
  }

  /** The newest of them, ascending. */
  newest(most: number): number[] {
    const found: number[] = [];
    if (most === 0) return found;
    for (let at = this.last(this.until + 1); at !== null; at = this.last(at)) {
      found.push(at);
      if (found.length === most) break;
    }
    return found.reverse();
  }

  /** The first and the last of them; null when there is none. */
  ends(): DecidedSpan | null {
    const from = this.first();
    const until = from === null ? null : this.last(this.until + 1);
    return from === null || until === null ? null : { from, until };
  }

  count(): number {
    const covered = this.spans.reduce((sum, span) => sum + this.countWithin(span.from - 1, span.until), 0);
    return this.countWithin(this.from, this.until) - covered;
  }

  private countWithin(after: number, until: number): number {
    const from = Math.max(after, this.from);
    const to = Math.min(until, this.until);
    return to <= from ? 0 : this.schedule.countBetween(from, to);
  }

  private first(): number | null {
    let at = this.schedule.nextAfter(this.from);
    for (let span = this.covering(at); span; span = this.covering(at)) at = this.schedule.nextAfter(span.until);
    return at !== null && at <= this.until ? at : null;
  }

  private last(before: number): number | null {
    let at = this.schedule.previousBefore(before);
    for (let span = this.covering(at); span; span = this.covering(at)) at = this.schedule.previousBefore(span.from);
    return at !== null && at > this.from ? at : null;
  }

  /** By halves: a watermark that stood still leaves thousands of rows to look through. */
  private covering(at: number | null): DecidedSpan | null {
    if (at === null) return null;
    let low = 0;
    let high = this.spans.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.spans[middle]!.until < at) low = middle + 1;
      else high = middle;
    }
    const span = this.spans[low];
    return span && span.from <= at ? span : null;
  }
}

/** The same fire times in spans that do not overlap, ascending. */
function merged(spans: readonly DecidedSpan[]): DecidedSpan[] {
  const result: DecidedSpan[] = [];
  for (const span of [...spans].sort((a, b) => a.from - b.from)) {
    const last = result.at(-1);
    if (last && span.from <= last.until)
      result[result.length - 1] = { from: last.from, until: Math.max(last.until, span.until) };
    else result.push(span);
  }
  return result;
}

/** Occurrences that are not run: one row covers them all. Milliseconds, both ends included. */
export interface MissedGap {
  readonly from: number;
  readonly until: number;
  readonly count: number;
  readonly reason: SkipReason;
}

/** Null when there is none. */
export function gap(undecided: UndecidedFireTimes, reason: SkipReason): MissedGap | null {
  const ends = undecided.ends();
  return ends && { ...ends, count: undecided.count(), reason };
}

/**
 * What an edit leaves behind: the undecided fire times of the schedule that was replaced, recorded and never run.
 * @param span exclusive and inclusive, milliseconds: it is decided up to `from`, and was edited at `until`
 * @returns null when all of them are decided
 */
export function planSuperseded(
  schedule: Schedule,
  { from, until }: { readonly from: number; readonly until: number },
  decided: readonly DecidedSpan[],
): MissedGap | null {
  return gap(new UndecidedFireTimes(schedule, from, until, decided), 'superseded by an edit');
}

/**
 * What has a row already of each job's fire times later than `from`. Milliseconds. A plan is written while
 * `job_decided_between_1` counts as many.
 */
export async function decidedSpans(
  query: Query,
  tables: Tables,
  jobs: readonly { readonly name: string; readonly from: number }[],
): Promise<Map<string, DecidedSpan[]>> {
  const spans = new Map<string, DecidedSpan[]>(jobs.map(({ name }) => [name, []]));
  const rows = await query<{ job_name: string; fire_time: Date; gap_from: Date | null }>(
    `select run.job_name, run.fire_time, run.gap_from
     from   unnest($1::text[], $2::timestamptz[]) as job (name, decided_until)
     join   ${tables.jobRuns} run on run.job_name = job.name and run.fire_time > job.decided_until
     where  run.fire_time > $3
     and    ${tables.qualify('run_is_planned_1')}(run.trigger)`,
    [jobs.map(({ name }) => name), jobs.map(({ from }) => iso(from)), iso(Math.min(...jobs.map(({ from }) => from)))],
  );
  for (const { job_name, fire_time, gap_from } of rows) {
    spans.get(job_name)!.push({ from: (gap_from ?? fire_time).getTime(), until: fire_time.getTime() });
  }
  return spans;
}

function iso(millis: number): string {
  return new Date(millis).toISOString();
}

/** A schedule that holds no longer. Everything of it up to `decidedUntil` is decided; milliseconds. */
export interface ReplacedSchedule {
  readonly name: string;
  readonly cron: string;
  readonly timeZone: string;
  readonly calendar: string | null;
  readonly decidedUntil: number;
}

/**
 * What becomes of the occurrences that a schedule leaves undecided when it is replaced: they are recorded, never run.
 * @param replacedAt milliseconds
 * @returns null when there are none, also of a schedule that cannot be read here
 */
function planReplaced(
  replaced: ReplacedSchedule,
  decided: readonly DecidedSpan[],
  replacedAt: number,
): MissedGap | null {
  const schedule = readable(replaced);
  return schedule && planSuperseded(schedule, { from: replaced.decidedUntil, until: replacedAt }, decided);
}

/** A person, or a newer version of this library, may have stored what this one cannot read. */
function readable({ cron, timeZone, calendar, name }: ReplacedSchedule): Schedule | null {
  try {
    return compileSchedule(cron, timeZone, name, calendar);
  } catch {
    return null;
  }
}

/** What a schedule that is replaced leaves undecided, as `job_schedule_supersede_1` takes it. Instants are ISO 8601. */
interface PlannedReplacement {
  /** From there on the new one holds. */
  readonly at: string;
  /** The old one was decided up to here. */
  readonly from: string;
  /** How many of its occurrences that are later have a row. With one more by now the plan is not written. */
  readonly rows: number;
  readonly gap: {
    readonly from: string;
    readonly until: string;
    readonly count: number;
    readonly reason: string;
  } | null;
}

/** @param at by the database's clock, read before the rows are. @returns by the jobs' names */
export async function planReplacements(
  query: Query,
  { tables }: SchedulerDatabase,
  replaced: readonly ReplacedSchedule[],
  at: Date,
): Promise<Map<string, PlannedReplacement>> {
  if (replaced.length === 0) return new Map();
  const decided = await decidedSpans(
    query,
    tables,
    replaced.map(({ name, decidedUntil }) => ({ name, from: decidedUntil })),
  );
  return new Map(
    replaced.map((schedule) => {
      const spans = decided.get(schedule.name)!;
      const gap = planReplaced(schedule, spans, at.getTime());
      return [
        schedule.name,
        {
          at: at.toISOString(),
          from: new Date(schedule.decidedUntil).toISOString(),
          rows: spans.length,
          gap: gap && { ...gap, from: new Date(gap.from).toISOString(), until: new Date(gap.until).toISOString() },
        },
      ];
    }),
  );
}

/** The fire times of the rows that the plans write. */
export function rowsOf(plans: Iterable<PlannedReplacement>): Date[] {
  return [...plans].flatMap(({ gap }) => (gap ? [new Date(gap.until)] : []));
}
