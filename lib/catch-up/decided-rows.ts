import type { DecidedSpan } from './undecided.js';
import type { Query } from '../database/query.js';
import type { Tables } from '../database/tables.js';

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
