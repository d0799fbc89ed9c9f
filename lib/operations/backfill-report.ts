import type { OverlapPolicy } from '../domain/job-definition.js';
import type { BackfillCounts, BackfillRow } from '../store/backfills/backfill.store.js';

/** What a backfill is going to do, as its range stands when it is asked for. */
export interface BackfillPlan {
  /** Null for a dry run. */
  readonly id: string | null;
  readonly jobName: string;
  /** Both ends belong to the range. */
  readonly from: Date;
  readonly to: Date;
  readonly maxConcurrent: number;
  readonly overlap: OverlapPolicy;
  readonly replay: boolean;
  readonly occurrences: number;
  /**
   * A forecast: an occurrence that the schedule or a person starts meanwhile is left alone then. With `replay`, what is run
   * again is counted here as well as in `alreadyRan`.
   */
  readonly willRun: number;
  /**
   * Done, dead, or cancelled after a start: left alone, or among those that will run when they are replayed. Also under a
   * former name of the job: those are left alone in any case.
   */
  readonly alreadyRan: number;
  /** Queued, running or waiting for another attempt: left alone. */
  readonly underWay: number;
}

/** A backfill and how far it has come. */
export interface BackfillProgress extends BackfillCounts {
  readonly id: string;
  readonly jobName: string;
  readonly from: Date;
  readonly to: Date;
  readonly state: 'active' | 'finished' | 'cancelled';
  readonly maxConcurrent: number;
  readonly overlap: OverlapPolicy;
  readonly replay: boolean;
  /** Occurrences in the range when it was asked for. */
  readonly total: number;
  /** Passed over: they had run, or somebody else had them in hand. */
  readonly leftAlone: number;
  /** Still to be looked at; none once it is finished or cancelled. */
  readonly left: number;
  /** Of a cancelled one: not looked at, and not going to be. */
  readonly notReached: number;
  readonly requestedBy: string | null;
  readonly reason: string | null;
  readonly createdAt: Date;
  readonly finishedAt: Date | null;
  readonly cancelledAt: Date | null;
  readonly cancelledBy: string | null;
  readonly cancelledReason: string | null;
}

/** The expression of a job may have changed since the occurrences were counted: nothing below zero is said. */
export function progressOf({ beside, fedUntil: _, fed, ...row }: BackfillRow): BackfillProgress {
  const left = row.finishedAt ? 0 : Math.max(0, row.total - fed - row.leftAlone);
  return {
    ...row,
    state: row.cancelledAt ? 'cancelled' : row.finishedAt ? 'finished' : 'active',
    overlap: beside ? 'allow' : 'forbid',
    left: row.cancelledAt ? 0 : left,
    notReached: row.cancelledAt ? left : 0,
  };
}
