import { planReplaced, type ReplacedSchedule } from '../catch-up/replaced-schedule.js';
import { decidedSpans } from '../catch-up/decided-rows.js';
import type { Query } from '../database/query.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';

/** What a schedule that is replaced leaves undecided, as `job_schedule_supersede_1` takes it. Instants are ISO 8601. */
export interface PlannedReplacement {
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
