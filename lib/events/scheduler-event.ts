import type { OwnedRun, RunKey } from '../domain/run.js';
import type { DatabaseTrouble } from '../domain/database-trouble.js';
import type { LeaseLoss } from '../errors/lease-lost.error.js';
import type { StoredError } from '../domain/stored-error.js';

/** One attempt of one occurrence. */
export interface AttemptFacts extends RunKey {
  readonly attempt: number;
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
  /** The occurrence is this instance's. Losing a claim is no event. */
  | ({ readonly type: 'run.claimed' } & OwnedRun)
  | ({ readonly type: 'run.started'; readonly delayMs: number } & AttemptFacts)
  | ({ readonly type: 'run.completed'; readonly durationMs: number } & AttemptFacts)
  | ({ readonly type: 'run.failed'; readonly durationMs: number; readonly error: StoredError; readonly retryInMs: number } & AttemptFacts)
  /** Attempts are used up: the run waits for a person. */
  | ({ readonly type: 'run.dead'; readonly error: StoredError } & AttemptFacts)
  /** Handed back by a stopping instance; another starts it at once. */
  | ({ readonly type: 'run.released' } & AttemptFacts)
  /** The occurrence has a row that says why it did not run. */
  | ({ readonly type: 'run.skipped'; readonly reason: string } & RunKey)
  /** Missed occurrences were decided; `recorded` of them will not run. */
  | { readonly type: 'run.missed'; readonly jobName: string; readonly queued: readonly Date[]; readonly recorded: number; readonly from: Date; readonly until: Date }
  /** A lease ran out and the reaper made the run claimable again. */
  | ({ readonly type: 'run.orphaned'; readonly claimedBy: string; readonly overdueMs: number } & AttemptFacts)
  /** The handler's signal was aborted: what it still writes is refused. */
  | ({ readonly type: 'lease.lost'; readonly cause: LeaseLoss } & AttemptFacts)
  /** What a former owner wanted to write was refused by the fence. */
  | ({ readonly type: 'run.refused'; readonly write: 'completion' | 'failure' | 'release' } & AttemptFacts)
  | ({ readonly type: 'receipt.written'; readonly entity: string; readonly effect: string } & AttemptFacts)
  /** The effect was there already: it was not repeated. */
  | ({ readonly type: 'receipt.duplicate'; readonly entity: string; readonly effect: string } & AttemptFacts)
  /** The run was no longer ours: neither receipt nor effect was written. */
  | ({ readonly type: 'receipt.refused'; readonly entity: string; readonly effect: string } & AttemptFacts)
  /** A job has another schedule on this instance than before: edited, renamed, or made at run time. `was` is null for a new one. */
  | { readonly type: 'job.scheduled'; readonly jobName: string; readonly schedule: string; readonly was: string | null }
  /** A job is not scheduled on this instance any more: removed, or decided under another name. */
  | { readonly type: 'job.unscheduled'; readonly jobName: string }
  /** At boot: live instances of another version hold a job to another schedule, or name, than the code here declares. */
  | { readonly type: 'job.contested'; readonly jobName: string; readonly declared: string; readonly holds: string }
  /** A job is stored in a way that this version can't read; it is left to others. */
  | { readonly type: 'job.unreadable'; readonly jobName: string; readonly problem: string }
  /** No live instance declares these jobs any more; `perhapsNow` is a job with the same schedule. */
  | { readonly type: 'job.unregistered'; readonly jobs: readonly { readonly jobName: string; readonly perhapsNow: string | null }[] }
  /** A job was seen to have changed: this instance looks for how. */
  | { readonly type: 'job.outdated'; readonly jobName: string }
  | { readonly type: 'partition.created'; readonly names: readonly string[] }
  /**
   * This machine's clock is further from the database's than `maxClockSkew`; ahead of it when `skewMs` is above zero. Told
   * once, and again when it is twice as bad or on the other side. Due-ness goes by the database's clock all the same.
   */
  | { readonly type: 'clock.skewed'; readonly skewMs: number; readonly maxMs: number }
  /** The clocks agree again. */
  | { readonly type: 'clock.agrees'; readonly skewMs: number }
  /** A periodic duty failed; it goes on by itself. `failures` counts those in a row; `trouble` says what is wrong with the database, if it is that. */
  | { readonly type: 'loop.failed'; readonly loop: string; readonly error: StoredError; readonly failures: number; readonly trouble?: DatabaseTrouble | null }
  | { readonly type: 'loop.recovered'; readonly loop: string }
  /** The heartbeat's own connection was lost; it reconnects by itself. */
  | { readonly type: 'heartbeat.failed'; readonly error: StoredError; readonly trouble?: DatabaseTrouble | null }
  | { readonly type: 'heartbeat.recovered' }
  /** The database has not answered for a while, since then; told once until it does. */
  | { readonly type: 'database.unreachable'; readonly since: Date; readonly trouble: DatabaseTrouble }
  | { readonly type: 'database.reachable'; readonly since: Date }
  /** No run of the job has been done for longer than its `expectSuccessWithin`; one replica tells. `lastSuccessAt` is null when there was none. */
  | { readonly type: 'job.overdue'; readonly jobName: string; readonly lastSuccessAt: Date | null; readonly expectedWithinMs: number }
  /** No more partitions can be made, and the last one ends then: what is due later has no row. One replica tells. */
  | { readonly type: 'partitions.ending'; readonly until: Date; readonly daysLeft: number }
  /** An attempt has run for longer than the job's budget, and goes on. */
  | ({ readonly type: 'run.overBudget'; readonly budgetMs: number; readonly runningMs: number } & AttemptFacts);

/** The event of one type. */
export type EventOf<Type extends SchedulerFact['type']> = Extract<SchedulerEvent, { type: Type }>;
