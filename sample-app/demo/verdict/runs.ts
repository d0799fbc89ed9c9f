import type { EarlierAttempt } from 'nestjs-distributed-cron';
import type { Database } from '../database.js';
import type { Window } from './window.js';

/** One row of `job_runs`. */
export interface RunRow {
  readonly job: string;
  readonly fireTime: Date;
  readonly status: string;
  readonly trigger: string;
  readonly reason: string | null;
  readonly attempt: number;
  readonly claimedBy: string | null;
  readonly startedAt: Date | null;
  readonly finishedAt: Date | null;
  readonly earlier: readonly EarlierAttempt[];
  /** A row that stands for several missed occurrences: the first of them. */
  readonly gapFrom: Date | null;
}

export function readRuns({ dataSource, schema }: Database, { from, to }: Window): Promise<RunRow[]> {
  return dataSource.query(
    `select job_name as job, fire_time as "fireTime", status, trigger, reason, attempt, claimed_by as "claimedBy",
            started_at as "startedAt", finished_at as "finishedAt", earlier_attempts as earlier, gap_from as "gapFrom"
     from   ${schema}.job_runs
     where  fire_time > $1
     and    coalesce(gap_from, fire_time) <= $2
     order  by job_name, fire_time`,
    [from, to],
  );
}

/** Whether something is still to come of the run. */
export function isOpen({ status }: RunRow): boolean {
  return ['queued', 'running', 'failed', 'orphaned'].includes(status);
}

/** Every start of every attempt, oldest first. */
export function startsOf({ earlier, startedAt, attempt, claimedBy }: RunRow) {
  const last = { attempt, claimedBy, startedAt };
  return [...earlier, last].flatMap((one) =>
    one.startedAt === null
      ? []
      : [{ attempt: one.attempt, claimedBy: one.claimedBy!, startedAt: new Date(one.startedAt) }],
  );
}
