import type { OccurrenceRow } from '../../domain/missed/backfill.js';
import type { Query } from '../connection/query.js';
import type { Tables } from '../tables.js';

/** The backfill that runs are queued for. */
interface QueuedFor {
  readonly id: string;
  readonly beside: boolean;
}

/** What a row stood for beside its own occurrence. */
export interface RestOfGap {
  /** The fire time whose new row stands for it now; null when there is none. */
  readonly heir: number | null;
  readonly count: number;
}

/** Queues occurrences that have no row. @returns those that were; the others were decided meanwhile */
export async function insertRuns(query: Query, { jobRuns }: Tables, backfill: QueuedFor, jobName: string, fireTimes: readonly number[]): Promise<Date[]> {
  if (fireTimes.length === 0) return [];
  const rows = await query<{ fire_time: Date }>(
    `insert into ${jobRuns} (job_name, fire_time, status, trigger, next_attempt_at, backfill_id, beside)
     select $1, fire_time, 'queued', 'backfill', clock_timestamp(), $3::uuid, $4::boolean
     from   unnest($2::timestamptz[]) as fed (fire_time)
     order  by fire_time
     on conflict (job_name, fire_time) do nothing
     returning fire_time`,
    [jobName, fireTimes.map(iso), backfill.id, backfill.beside],
  );
  return rows.map((row) => row.fire_time);
}

/** Takes occurrences that have got a row of their own from the count of the gap they lie in. */
export async function shrinkGaps(query: Query, { jobRuns }: Tables, jobName: string, fireTimes: readonly Date[]): Promise<void> {
  if (fireTimes.length === 0) return;
  await query(
    `update ${jobRuns} run
     set    gap_count = greatest(1, run.gap_count - inside.many)
     from  (select gap.fire_time, count(*)::integer as many
            from   ${jobRuns} gap
            join   unnest($2::timestamptz[]) as fed (fire_time) on fed.fire_time >= gap.gap_from and fed.fire_time < gap.fire_time
            where  gap.job_name = $1
            and    gap.gap_from is not null
            group  by gap.fire_time) inside
     where  run.job_name = $1
     and    run.fire_time = inside.fire_time`,
    [jobName, fireTimes.map((fireTime) => fireTime.toISOString())],
  );
}

/**
 * Queues an occurrence whose row says that it did not run, or that it did, and keeps what it said. Its attempts so far do
 * not count; their number goes on, for it is the fence.
 * @returns the fire time; nothing when somebody changed the row meanwhile
 */
export async function reopenRuns(query: Query, tables: Tables, backfill: QueuedFor, jobName: string, row: OccurrenceRow, gap: RestOfGap): Promise<Date[]> {
  const { jobRuns } = tables;
  if (gap.heir !== null) {
    await query(
      `insert into ${jobRuns} (job_name, fire_time, status, trigger, reason, finished_at, gap_from, gap_count)
       select job_name, $3::timestamptz, status, trigger, reason, finished_at, gap_from, $4::integer
       from   ${jobRuns}
       where  job_name = $1
       and    fire_time = $2
       and    status = 'skipped'
       on conflict (job_name, fire_time) do nothing`,
      [jobName, iso(row.fireTime), iso(gap.heir), gap.count],
    );
  }
  // By an expression that was replaced the gap may hold what this one has no fire time for: then the row stands for it on.
  const keepsGap = gap.heir === null && gap.count > 0;
  const rows = await query<{ fire_time: Date }>(
    `update ${jobRuns}
     set    status = 'queued',
            trigger = 'backfill',
            backfill_id = $5,
            beside = $6,
            reason = null,
            error = null,
            checkpoint = case status when 'done' then null else checkpoint end,
            claimed_by = null,
            started_at = null,
            finished_at = null,
            next_attempt_at = clock_timestamp(),
            releases = attempt,
            pages = case when ${tables.qualify('run_died_of_pages_1')}(status, pages) then pages end,
            gap_from = case when $7 then gap_from end,
            gap_count = case when $7 then gap_count end,
            earlier_attempts = earlier_attempts || jsonb_build_object(
              'attempt', attempt,
              'claimedBy', claimed_by,
              'startedAt', started_at,
              'finishedAt', finished_at,
              'status', status,
              'error', error,
              'reason', reason,
              'trigger', trigger,
              'pages', pages)
     where  job_name = $1
     and    fire_time = $2
     and    status = $3
     and    attempt = $4
     returning fire_time`,
    [jobName, iso(row.fireTime), row.status, row.attempt, backfill.id, backfill.beside, keepsGap],
  );
  return rows.map(({ fire_time }) => fire_time);
}

function iso(millis: number): string {
  return new Date(millis).toISOString();
}
