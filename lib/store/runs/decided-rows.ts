import type { DecidedSpan } from '../../domain/missed/undecided.js';
import type { SkipReason } from '../../domain/runs/run.js';
import type { Query } from '../connection/query.js';
import type { Tables } from '../tables.js';

/** A row that decides without running: an occurrence to be run later, or one or a gap of them that are not. Milliseconds. */
export interface Decision {
  readonly jobName: string;
  readonly fireTime: number;
  readonly status: 'queued' | 'skipped';
  readonly reason: SkipReason | null;
  readonly gap: { readonly from: number; readonly count: number } | null;
}

/** What has a row already of each job's fire times later than `from`. Milliseconds. */
export async function decidedSpans(
  query: Query,
  { jobRuns }: Tables,
  jobs: readonly { readonly name: string; readonly from: number }[],
): Promise<Map<string, DecidedSpan[]>> {
  const spans = new Map<string, DecidedSpan[]>(jobs.map(({ name }) => [name, []]));
  const rows = await query<{ job_name: string; fire_time: Date; gap_from: Date | null }>(
    `select run.job_name, run.fire_time, run.gap_from
     from   unnest($1::text[], $2::timestamptz[]) as job (name, decided_until)
     join   ${jobRuns} run on run.job_name = job.name and run.fire_time > job.decided_until
     where  run.fire_time > $3`,
    [jobs.map(({ name }) => name), jobs.map(({ from }) => iso(from)), iso(Math.min(...jobs.map(({ from }) => from)))],
  );
  for (const { job_name, fire_time, gap_from } of rows) {
    spans.get(job_name)!.push({ from: (gap_from ?? fire_time).getTime(), until: fire_time.getTime() });
  }
  return spans;
}

/** @returns how many were written: fewer when some have a row by now */
export async function insertDecisions(query: Query, { jobRuns }: Tables, decisions: readonly Decision[]): Promise<number> {
  if (decisions.length === 0) return 0;
  const written = await query(
    `insert into ${jobRuns}
            (job_name, fire_time, status, trigger, reason, finished_at, next_attempt_at, gap_from, gap_count)
     select job_name, fire_time, status, 'catch-up', reason,
            case status when 'skipped' then clock_timestamp() end,
            case status when 'queued' then clock_timestamp() end,
            gap_from, gap_count
     from   unnest($1::text[], $2::timestamptz[], $3::text[], $4::text[], $5::timestamptz[], $6::integer[])
              as decided (job_name, fire_time, status, reason, gap_from, gap_count)
     order  by job_name, fire_time
     on conflict (job_name, fire_time) do nothing
     returning 1`,
    [
      decisions.map(({ jobName }) => jobName),
      decisions.map(({ fireTime }) => iso(fireTime)),
      decisions.map(({ status }) => status),
      decisions.map(({ reason }) => reason),
      decisions.map(({ gap }) => gap && iso(gap.from)),
      decisions.map(({ gap }) => gap && gap.count),
    ],
  );
  return written.length;
}

function iso(millis: number): string {
  return new Date(millis).toISOString();
}
