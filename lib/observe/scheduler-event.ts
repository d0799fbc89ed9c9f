import type { DatabaseTrouble } from '../errors/database-trouble.js';
import type { StoredError } from '../errors/stored-error.js';
import type { AttemptFacts, RunFact } from './run-event.js';
import type { StillOpen } from '../options/retention.js';
import type { RunKey } from '../options/run.js';

/** One backfill of one job. */
export interface BackfillFacts {
  readonly id: string;
  readonly jobName: string;
}

/** In which step of a run the database refused its data. */
export type RefusedStep =
  | 'claim'
  | 'start'
  | 'end'
  | 'reap'
  | 'cancel'
  | 'take over'
  | 'give up'
  | 'hand back'
  | 'settle'
  | 'recover'
  | 'hand over'
  | 'catch up';

/** What holds a job back. */
export interface HoldFacts {
  readonly hold: 'paused' | 'disabled';
  readonly since: Date | null;
  readonly until: Date | null;
  readonly by: string | null;
  readonly reason: string | null;
}

/**
 * Everything the scheduler tells, as it happens on this instance. `type` says what; `at` when, by the machine's clock.
 */
export type SchedulerEvent = { readonly at: Date } & SchedulerFact;

/** What an event says beside its time, by `type`. What ends in `Ms` is milliseconds. */
export type SchedulerFact =
  | { readonly type: 'scheduler.started'; readonly instanceId: string; readonly jobs: number }
  | { readonly type: 'scheduler.stopping'; readonly instanceId: string; readonly running: number }
  | { readonly type: 'scheduler.stopped'; readonly instanceId: string; readonly abandoned: number }
  | RunFact
  /**
   * A job has another schedule on this instance than before, or something else of it changed: edited, renamed, or made
   * at run time. `was` is null for a new one, and where the schedule is the same; `updated` is true for the latter.
   */
  | {
      readonly type: 'job.scheduled';
      readonly jobName: string;
      readonly schedule: string;
      readonly was: string | null;
      readonly updated: boolean;
    }
  /** A job is not scheduled on this instance any more: removed, or decided under another name. */
  | { readonly type: 'job.unscheduled'; readonly jobName: string }
  /**
   * At boot: live instances of another version hold a job to another schedule, or name, than the code here declares.
   */
  | { readonly type: 'job.contested'; readonly jobName: string; readonly declared: string; readonly holds: string }
  /** At boot: an operator has put another schedule in place of the one that the code here declares. */
  | { readonly type: 'job.overridden'; readonly jobName: string; readonly declared: string; readonly holds: string }
  /**
   * At boot: an operator holds the job back. `since` is null where nobody noted it, `until` where it lasts until
   * somebody ends it.
   */
  | ({ readonly type: 'job.held'; readonly jobName: string } & HoldFacts)
  /** A job is stored in a way that this version can't read; it is left to others. */
  | { readonly type: 'job.unreadable'; readonly jobName: string; readonly problem: string }
  /**
   * The database refuses a step of this run because of what is stored of it or of its job, or what was to be written:
   * somebody has to mend it. Other runs go on. Told once, until it was accepted again.
   */
  | ({ readonly type: 'data.refused'; readonly step: RefusedStep; readonly error: StoredError } & RunKey)
  /**
   * No live instance can run these jobs any more. None declares them, and `perhapsNow` is a new job with the same
   * schedule; or they were made at run time, and none has the handler `missingHandler`.
   */
  | {
      readonly type: 'job.unregistered';
      readonly jobs: readonly {
        readonly jobName: string;
        readonly perhapsNow: string | null;
        readonly missingHandler: string | null;
      }[];
    }
  /**
   * After a connection was lost, or the server was restarted or another promoted: occurrences that were decided have no
   * row any more, the first and the last of them. They are decided again.
   */
  | { readonly type: 'job.rewound'; readonly jobName: string; readonly from: Date; readonly until: Date }
  /**
   * A live instance of another application declares jobs or handlers of the same names: each occurrence runs in one of
   * the two.
   * Told once for each application and what is shared.
   */
  | {
      readonly type: 'jobs.shared';
      readonly application: string;
      readonly other: string;
      readonly jobs: readonly string[];
      readonly handlers: readonly string[];
    }
  /**
   * By the time-zone data of the live instance `other` the clocks of zones that jobs are in here change otherwise, this
   * year or the next. `tz` is the version of the data here, null where it is unknown.
   */
  | {
      readonly type: 'zones.differ';
      readonly zones: readonly string[];
      readonly tz: string | null;
      readonly other: string;
      readonly otherTz: string | null;
    }
  /** A job was seen to have changed: this instance looks for how. */
  | { readonly type: 'job.outdated'; readonly jobName: string }
  /** An operator asked for it on this instance; `willRun` of `occurrences` are to be run. */
  | ({
      readonly type: 'backfill.started';
      readonly from: Date;
      readonly to: Date;
      readonly occurrences: number;
      readonly willRun: number;
    } & BackfillFacts)
  /** Nothing of it is left: `done` and `dead` of its runs ended so, `leftAlone` had run or were in hand already. */
  | ({
      readonly type: 'backfill.finished';
      readonly total: number;
      readonly leftAlone: number;
      readonly done: number;
      readonly dead: number;
    } & BackfillFacts)
  /** An operator ended it on this instance: `cancelled` runs will not start, `running` go on. */
  | ({
      readonly type: 'backfill.cancelled';
      readonly by: string | null;
      readonly reason: string | null;
      readonly cancelled: number;
      readonly running: number;
    } & BackfillFacts)
  | { readonly type: 'partition.created'; readonly names: readonly string[] }
  /** They were older than the retention. `dead`: of the runs in them, those that nobody had replayed or discarded. */
  | { readonly type: 'partition.dropped'; readonly names: readonly string[]; readonly dead: number }
  /**
   * It ended at `until`, is older than the retention, and is kept because of what is open in its months; null: because
   * a transaction that began before has not ended. Told by one replica, once a day.
   */
  | { readonly type: 'partition.kept'; readonly name: string; readonly until: Date; readonly open: StillOpen | null }
  /**
   * This machine's clock is further from the database's than `maxClockSkew`; ahead of it when `skewMs` is above zero.
   * Told once, and again when it is twice as bad or on the other side. Due-ness goes by the database's clock all the
   * same.
   */
  | { readonly type: 'clock.skewed'; readonly skewMs: number; readonly maxMs: number }
  /** The clocks agree again. */
  | { readonly type: 'clock.agrees'; readonly skewMs: number }
  /**
   * A function among the options of a job threw. What stands instead: the error is retryable; the backoff ends the run.
   */
  | ({
      readonly type: 'policy.failed';
      readonly option: 'retryable' | 'backoff';
      readonly error: StoredError;
    } & AttemptFacts)
  /** The event loop of this process stood still for so long, and moves again. */
  | { readonly type: 'loop.blocked'; readonly forMs: number }
  /**
   * A periodic duty failed; it goes on by itself. `failures` counts those in a row; `trouble` says what is wrong with
   * the database, if it is that.
   */
  | {
      readonly type: 'loop.failed';
      readonly loop: string;
      readonly error: StoredError;
      readonly failures: number;
      readonly trouble?: DatabaseTrouble | null;
    }
  | { readonly type: 'loop.recovered'; readonly loop: string }
  /** The heartbeat's own connection was lost; it reconnects by itself. */
  | { readonly type: 'heartbeat.failed'; readonly error: StoredError; readonly trouble?: DatabaseTrouble | null }
  | { readonly type: 'heartbeat.recovered' }
  /**
   * `fastFailover` is on, and is of no use to this instance: a pooler is between it and the database. Its leases count.
   */
  | { readonly type: 'fastFailover.unavailable' }
  /**
   * Its liveness lock was gone for `goneMs`: so many of its runs were taken over before their leases ended. By one replica.
   */
  | { readonly type: 'instance.gone'; readonly instanceId: string; readonly runs: number; readonly goneMs: number }
  /** The database has not answered for a while, since then; told once until it does. */
  | { readonly type: 'database.unreachable'; readonly since: Date; readonly trouble: DatabaseTrouble }
  | { readonly type: 'database.reachable'; readonly since: Date }
  /**
   * No run of the job has been done for longer than its `expectSuccessWithin`; one replica tells. `lastSuccessAt` is
   * null when there was none.
   */
  | {
      readonly type: 'job.overdue';
      readonly jobName: string;
      readonly lastSuccessAt: Date | null;
      readonly expectedWithinMs: number;
    }
  /** No more partitions can be made, and the last one ends then: what is due later has no row. One replica tells. */
  | { readonly type: 'partitions.ending'; readonly until: Date; readonly daysLeft: number };

/** The event of one type. */
export type EventOf<Type extends SchedulerFact['type']> = Extract<SchedulerEvent, { type: Type }>;

type RunEndType = 'run.completed' | 'run.woundUp' | 'run.dead' | 'run.cancelled' | 'run.abandoned' | 'run.refused';

const RUN_ENDS: ReadonlySet<string> = new Set<RunEndType>([
  'run.completed',
  'run.woundUp',
  'run.dead',
  'run.cancelled',
  'run.abandoned',
  'run.refused',
]);

/** A run of this instance is over here: its slot is free, and what it kept waiting may start. */
export function isRunEnd(event: SchedulerEvent): event is EventOf<RunEndType> {
  return RUN_ENDS.has(event.type);
}
