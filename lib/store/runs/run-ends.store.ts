import type { OwnedRun } from '../../domain/runs/run.js';
import type { Ending, WrittenEnd } from './job-run.store.js';
import { inOnePreparedMessage } from '../connection/one-message.js';
import { sparse } from '../connection/sparse.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import type { Tables } from '../tables.js';
import { wakingUp } from '../wake-up.js';

/** How one attempt ended. */
export interface RunEnd {
  readonly run: OwnedRun;
  /** Null when it completed. */
  readonly ending: Ending | null;
}

/** What became of one end of several. */
export type EndAnswer =
  | { readonly kind: 'written'; readonly end: WrittenEnd }
  /** Somebody holds the row, or the run is no longer ours. To be written by itself, which tells. */
  | { readonly kind: 'passed over' };

/** Ends several attempts in one statement, each behind its own fence: the rules are those of `JobRunStore`, and so are the wake-ups. */
export class RunEndsStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /**
   * A row that somebody else holds is passed over, so that it does not hold up the others; for that reason, too, two such
   * statements never wait for each other crosswise.
   * @returns an answer for each, in the order they were given
   */
  async endAll(ends: readonly RunEnd[]): Promise<EndAnswer[]> {
    const instanceId = ends[0]?.run.instanceId;
    const given = ends.map(({ run, ending }, place) => sparse({ place, ...fence(run), instanceId: run.instanceId === instanceId ? null : run.instanceId, ...ending }));
    const rows = await inOnePreparedMessage<EndedRow>(this.database.coordination, [
      { name: 'end_all', sql: ([given, instance]) => endAll(this.database.tables, given!, instance!), values: [given, instanceId] },
    ]);
    const found = new Map(rows.map((row) => [row.place, row]));
    return ends.map((_, place) => answerOf(found.get(place)));
  }
}

interface EndedRow {
  readonly place: number;
  readonly status: WrittenEnd['status'];
  readonly reason: string | null;
}

/**
 * @param given SQL for a jsonb array of the fences and how each attempt ended; without a status it completed
 * @param instanceId SQL for a jsonb text: whose the runs are of which nothing else is said
 */
function endAll(tables: Tables, given: string, instanceId: string): string {
  const { jobRuns } = tables;
  return `
     with given as materialized (
       select place, "jobName", "fireTime", attempt, coalesce("instanceId", ${instanceId} #>> '{}') as "instanceId",
              coalesce(status, 'done') as status, reason, error, "retryInMs", coalesce(releases, 0) as releases
       from   jsonb_to_recordset(${given}) as given (place integer, "jobName" text, "fireTime" timestamptz, attempt integer, "instanceId" text,
                                               status text, reason text, error jsonb, "retryInMs" double precision, releases integer)
     ),
     free as (
       select given.*
       from   ${jobRuns} run
       join   given on given."jobName" = run.job_name and given."fireTime" = run.fire_time
       where  run.status = 'running'
       and    run.attempt = given.attempt
       and    run.claimed_by = given."instanceId"
       and    run.lease_until > clock_timestamp()
       for    no key update of run skip locked
     ),
     ended as (
       update ${jobRuns} run
       set    status = case when free.status = 'done' or run.cancel_requested_at is null then free.status else 'cancelled' end,
              reason = case when free.status = 'done' then run.reason
                            when run.cancel_requested_at is null then free.reason
                            else coalesce(run.cancel_reason, free.reason) end,
              error = case when free.status = 'done' then run.error else free.error end,
              finished_at = clock_timestamp(),
              next_attempt_at = case when free.status <> 'done' and run.cancel_requested_at is null
                                     then clock_timestamp() + free."retryInMs" * interval '1 millisecond' end,
              releases = run.releases + free.releases
       from   free
       where  run.job_name = free."jobName"
       and    run.fire_time = free."fireTime"
       and    run.status = 'running'
       and    run.attempt = free.attempt
       and    run.claimed_by = free."instanceId"
       and    run.lease_until > clock_timestamp()
       returning free.place, run.status, run.reason
     )
     select place, status, reason, case when status = 'queued' then ${wakingUp(tables, 'runs')} end
     from   ended`;
}

function fence({ jobName, fireTime, attempt }: OwnedRun) {
  return { jobName, fireTime: fireTime.toISOString(), attempt };
}

function answerOf(row: EndedRow | undefined): EndAnswer {
  return row ? { kind: 'written', end: { status: row.status, reason: row.reason } } : { kind: 'passed over' };
}
