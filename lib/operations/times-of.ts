import type { Tables } from '../database/tables.js';

/**
 * From when to when each attempt of a run was under way, infinity for one that still is; of a run that was skipped
 * since others were under way, the moment in which that was decided.
 * @param run SQL alias of `job_runs`
 */
export function timesOf(run: string, tables: Tables): string {
  // One row that somebody has spoilt must not keep the others from being explained.
  const instant = (name: string) => `${tables.qualify('instant_or_null_1')}(earlier ->> '${name}')`;
  return `(select ${run}.started_at as began, case when ${run}.status in ('running', 'fanned_out') then 'infinity' else ${run}.finished_at end as ended
           where  ${run}.claimed_by is not null
           union  all
           select ${instant('startedAt')}, ${instant('finishedAt')}
           from   jsonb_array_elements(case jsonb_typeof(${run}.earlier_attempts) when 'array' then ${run}.earlier_attempts else '[]' end) earlier
           union  all
           select ${run}.finished_at, ${run}.finished_at + interval '1 microsecond'
           where  ${run}.status = 'skipped'
           and    ${run}.reason in ('overlap', 'overlap: the queue is full'))`;
}
