import type { RunKey, RunStatus } from '../domain/run.js';
import type { RunFilter } from '../options/dead-letter-filter.js';
import { queryOn, type Query } from './query.js';
import { recordAction } from './record-action.js';
import type { SchedulerDatabase } from './scheduler-database.js';
import { inTransaction } from './transaction.js';

/** Who, and why. */
interface Actor {
  readonly by: string;
  readonly reason: string | null;
}

/** What became of one run: how it was, and whether it was changed. */
export interface ChangedRun {
  readonly changed: boolean;
  readonly status: RunStatus;
  /** How many occurrences its row stands for, where that is a gap. */
  readonly gapCount: number | null;
}

/** What a filter found. */
export interface FoundRuns {
  /** The earliest fire times first. */
  readonly runs: readonly RunKey[];
  /** How many more there are. */
  readonly left: number;
}

/** What bulk verbs say of themselves in `job_actions.details`. */
type Details = Readonly<Record<string, unknown>>;

/**
 * The statements that begin ended runs again, or end them for good. The status is judged in the update itself, on the locked
 * row: of two people, or a person and a claim, the first wins.
 */
export class DeadLetterStore {
  private readonly query: Query;

  constructor(private readonly database: SchedulerDatabase) {
    this.query = queryOn(database.coordination);
  }

  /**
   * Makes a run claimable now. What it has of attempts does not count any more, its key and its receipts stay.
   * @param allowed the statuses it may have
   * @returns null when there is no such run
   */
  async replay(key: RunKey, allowed: readonly RunStatus[], { by, reason }: Actor): Promise<ChangedRun | null> {
    const { tables } = this.database;
    return this.changeOne(
      key,
      { action: 'replay', by, reason },
      `update ${tables.jobRuns}
       set    status = case when status in ('failed', 'orphaned') then status else 'queued' end,
              reason = 'replayed by ' || $4::text || ' (was ' || status || coalesce(': ' || reason, '') || ')',
              requested_by = $4,
              next_attempt_at = clock_timestamp(),
              releases = attempt,
              cancel_requested_at = null,
              cancel_reason = null
       where  job_name = $1
       and    fire_time = $2
       and    status = any ($3::text[])
       and    coalesce(gap_count, 1) = 1
       returning 1`,
      [allowed, by],
    );
  }

  /** Ends a run that waits for a person, or for its next attempt. @returns null when there is no such run */
  async discard(key: RunKey, allowed: readonly RunStatus[], { by, reason }: Actor): Promise<ChangedRun | null> {
    const { tables } = this.database;
    return this.changeOne(
      key,
      { action: 'discard', by, reason },
      `update ${tables.jobRuns}
       set    status = 'cancelled',
              reason = 'discarded: ' || $4::text,
              next_attempt_at = null
       where  job_name = $1
       and    fire_time = $2
       and    status = any ($3::text[])
       returning 1`,
      [allowed, reason],
    );
  }

  /** Those that {@link replayAll} and {@link discardAll} would change. */
  async find(filter: RunFilter, limit: number): Promise<FoundRuns> {
    const { jobRuns } = this.database.tables;
    const [row] = await this.query<FoundRow>(
      `with matching as materialized (
         select job_name, fire_time
         from   ${jobRuns}
         where  ${MATCHES}
       ),
       changed as (
         select job_name, fire_time
         from   matching
         order  by fire_time, job_name
         limit  $6
       )
       ${FOUND}`,
      [...parametersOf(filter), limit],
    );
    return found(row!);
  }

  async replayAll(filter: RunFilter, limit: number, { by, reason }: Actor, details: Details): Promise<FoundRuns> {
    const { jobRuns, jobActions } = this.database.tables;
    const [row] = await this.query<FoundRow>(
      `with matching as materialized (
         select job_name, fire_time
         from   ${jobRuns}
         where  ${MATCHES}
       ),
       picked as (
         select job_name, fire_time
         from   ${jobRuns}
         where  ${MATCHES}
         order  by fire_time, job_name
         limit  $6
         for    update skip locked
       ),
       changed as (
         update ${jobRuns} run
         set    status = case when run.status = 'dead' then 'queued' else run.status end,
                reason = 'replayed by ' || $7::text || ' (was ' || run.status || coalesce(': ' || run.reason, '') || ')',
                requested_by = $7,
                next_attempt_at = clock_timestamp(),
                releases = run.attempt,
                cancel_requested_at = null,
                cancel_reason = null
         from   picked
         where  run.job_name = picked.job_name
         and    run.fire_time = picked.fire_time
         returning run.job_name, run.fire_time
       ),
       recorded as (
         insert into ${jobActions} (action, job_name, fire_time, actor, reason, details)
         select 'replay', job_name, fire_time, $7, $8, $9::jsonb
         from   changed
         order  by fire_time, job_name
       )
       ${FOUND}`,
      [...parametersOf(filter), limit, by, reason, JSON.stringify(details)],
    );
    return found(row!);
  }

  async discardAll(filter: RunFilter, limit: number, { by, reason }: Actor, details: Details): Promise<FoundRuns> {
    const { jobRuns, jobActions } = this.database.tables;
    const [row] = await this.query<FoundRow>(
      `with matching as materialized (
         select job_name, fire_time
         from   ${jobRuns}
         where  ${MATCHES}
       ),
       picked as (
         select job_name, fire_time
         from   ${jobRuns}
         where  ${MATCHES}
         order  by fire_time, job_name
         limit  $6
         for    update skip locked
       ),
       changed as (
         update ${jobRuns} run
         set    status = 'cancelled',
                reason = 'discarded: ' || $8::text,
                next_attempt_at = null
         from   picked
         where  run.job_name = picked.job_name
         and    run.fire_time = picked.fire_time
         returning run.job_name, run.fire_time
       ),
       recorded as (
         insert into ${jobActions} (action, job_name, fire_time, actor, reason, details)
         select 'discard', job_name, fire_time, $7, $8, $9::jsonb
         from   changed
         order  by fire_time, job_name
       )
       ${FOUND}`,
      [...parametersOf(filter), limit, by, reason, JSON.stringify(details)],
    );
    return found(row!);
  }

  private changeOne(
    { jobName, fireTime }: RunKey,
    action: Actor & { readonly action: string },
    update: string,
    parameters: readonly unknown[],
  ): Promise<ChangedRun | null> {
    const { coordination, tables } = this.database;
    return inTransaction(coordination, async (query) => {
      const key = [jobName, fireTime.toISOString()];
      const [was] = await query<{ status: RunStatus; gapCount: number | null }>(
        `select status, gap_count as "gapCount"
         from   ${tables.jobRuns}
         where  job_name = $1
         and    fire_time = $2
         for    update`,
        key,
      );
      if (!was) return null;
      const changed = (await query(update, [...key, ...parameters])).length === 1;
      if (changed) await recordAction(query, tables, { ...action, jobName, fireTime, details: { was: was.status } });
      return { ...was, changed };
    });
  }
}

/** SQL for: a run that the first five parameters ask for. */
const MATCHES = `status = $1
         and   ($2::text is null or job_name = $2)
         and   ($3::timestamptz is null or fire_time >= $3)
         and   ($4::timestamptz is null or fire_time <= $4)
         and   ($5::text is null or position(lower($5) in lower(concat(error ->> 'name', ': ', error ->> 'message'))) > 0)`;

/** SQL for what a bulk verb answers. */
const FOUND = `select coalesce((select jsonb_agg(jsonb_build_array(job_name, fire_time) order by fire_time, job_name) from changed), '[]') as runs,
              (select count(*)::integer from matching) - (select count(*)::integer from changed) as left_over`;

interface FoundRow {
  runs: [jobName: string, fireTime: string][];
  left_over: number;
}

function found({ runs, left_over }: FoundRow): FoundRuns {
  return { runs: runs.map(([jobName, fireTime]) => ({ jobName, fireTime: new Date(fireTime) })), left: left_over };
}

function parametersOf({ status, jobName, from, to, errorContains }: RunFilter): unknown[] {
  return [status, jobName, from?.toISOString() ?? null, to?.toISOString() ?? null, errorContains];
}
