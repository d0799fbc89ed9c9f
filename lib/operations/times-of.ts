/**
 * From when to when each attempt of a run was under way, infinity for one that still is; of a run that was skipped
 * since others were under way, the moment in which that was decided.
 * @param run SQL alias of `job_runs`
 */
export function timesOf(run: string): string {
  return `(select ${run}.started_at as began, case when ${run}.status in ('running', 'fanned_out') then 'infinity' else ${run}.finished_at end as ended
           where  ${run}.claimed_by is not null
           union  all
           select (earlier ->> 'startedAt')::timestamptz, (earlier ->> 'finishedAt')::timestamptz
           from   jsonb_array_elements(${run}.earlier_attempts) earlier
           union  all
           select ${run}.finished_at, ${run}.finished_at + interval '1 microsecond'
           where  ${run}.status = 'skipped'
           and    ${run}.reason in ('overlap', 'overlap: the queue is full'))`;
}
