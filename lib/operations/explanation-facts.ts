import type { FlagOffPolicy } from '../options/job-definition.js';
import type { PageProgress } from '../fan-out/page.js';
import type { RunStatus, RunTrigger } from '../options/run.js';

/** One start of a handler. */
export interface ExplainedStart {
  readonly attempt: number;
  readonly instanceId: string | null;
  readonly startedAt: Date | null;
  readonly finishedAt: Date | null;
  readonly status: RunStatus;
  readonly error: string | null;
  /** Why it ended as it did, or who had it begun again. */
  readonly reason?: string | null;
}

/** The row of an occurrence, or of the gap that covers it. */
export interface ExplainedRow {
  readonly fireTime: Date;
  readonly status: RunStatus;
  readonly trigger: RunTrigger;
  readonly reason: string | null;
  readonly starts: readonly ExplainedStart[];
  readonly leaseUntil: Date | null;
  /** Its owner has a lifeline: see `fastFailover`. */
  readonly hasLifeline?: boolean;
  readonly nextAttemptAt: Date | null;
  readonly requestedBy: string | null;
  readonly cancelRequestedAt: Date | null;
  /** The beginning of what its handler has saved, as JSON. */
  readonly checkpoint?: string | null;
  /** How far its pages are; null where it was not fanned out. */
  readonly pages?: PageProgress | null;
  /** The first fire time of a gap, and how many it covers. */
  readonly gap: { readonly from: Date; readonly count: number } | null;
}

/** What is known about the job as the database has it. */
export interface ExplainedJob {
  readonly effectiveFrom: Date;
  /** Every due occurrence up to here has a row; a lower bound. */
  readonly decidedUntil: Date;
  readonly enabled: boolean;
  readonly paused: {
    readonly by: string | null;
    readonly reason: string | null;
    readonly since: Date;
    readonly until: Date | null;
  } | null;
  readonly flag: string | null;
  readonly flagOff: FlagOffPolicy;
  /** The table has it as off. */
  readonly flagIsOff: boolean;
  /** Its concurrency group, when that has no place left. */
  readonly fullGroup?: { readonly name: string; readonly limit: number } | null;
  readonly yieldsTo: string | null;
  readonly removedAt: Date | null;
  /** How many live instances can run it. */
  readonly instances: number;
}

/** A call that nobody knows the end of. */
export interface CallInDoubt {
  readonly entity: string;
  readonly effect: string;
  readonly attempt: number;
}

/** All that an explanation is made of, at one moment of the database's clock. */
export interface ExplanationFacts {
  readonly jobName: string;
  readonly fireTime: Date;
  readonly now: Date;
  readonly job: ExplainedJob | null;
  readonly row: ExplainedRow | null;
  /**
   * Whether the schedule has this fire time and waits for its delivery, which rule of its calendar leaves it out, and
   * those around it; null when the schedule cannot be read here.
   */
  readonly schedule: {
    readonly fires: boolean;
    readonly isExternal?: boolean;
    readonly leftOutBy?: string | null;
    readonly before: Date | null;
    readonly after: Date | null;
  } | null;
  /**
   * Runs of the job that were under way while this one was; of one that was skipped for them, when that was decided.
   */
  readonly beside: readonly Date[];
  /** Occurrences that were skipped because this one was under way. */
  readonly skippedFor: readonly Date[];
  /** Its calls outside the database that nobody knows the end of; the first hundred. */
  readonly inDoubt?: readonly CallInDoubt[];
  /** The run of the job that is under way now, when it is another one. */
  readonly inTheWay: { readonly fireTime: Date; readonly instanceId: string } | null;
  /** The former name of the job under which the occurrence ran, or is under way. */
  readonly elsewhere: string | null;
}

/** What became of a planned time. */
export type ExplanationKind =
  | 'done'
  | 'running'
  /** Its pages are worked; the run itself has nobody. */
  | 'fanned_out'
  | 'waiting'
  | 'dead'
  | 'cancelled'
  | 'skipped'
  /** Due, and without a decision yet. */
  | 'undecided'
  | 'not due yet'
  /** No fire time of the job's schedule as it is now. */
  | 'no occurrence'
  /** Before the schedule holds: never due. */
  | 'before the schedule'
  | 'unknown job';

/** The answers to an operator's questions about one planned time. */
export interface Explanation {
  readonly jobName: string;
  readonly fireTime: Date;
  readonly kind: ExplanationKind;
  /** How many handlers were started for it: one for each attempt. */
  readonly starts: readonly ExplainedStart[];
  /** What kept, or keeps, a second one from starting. */
  readonly secondStart: string;
  /** Where its handler has got to, and whether another attempt resumes from there; null when it has saved nothing. */
  readonly checkpoint: string | null;
  /** Whether it overlapped other runs of its job. */
  readonly overlap: string;
  /**
   * Runs of the job that were under way while this one was; of one that was skipped for them, when that was decided.
   */
  readonly beside: readonly Date[];
  readonly skippedFor: readonly Date[];
  /** What to do to run this one period again. */
  readonly rerun: string;
  /** Why it did not run, or does not yet; null when it did. */
  readonly why: string | null;
  /** Its calls outside the database that nobody knows the end of; the first hundred. */
  readonly inDoubt: readonly CallInDoubt[];
  /** How far its pages are; null where it was not fanned out. */
  readonly pages: PageProgress | null;
  /** The fire times of the schedule around it. */
  readonly nearest: { readonly before: Date | null; readonly after: Date | null } | null;
  /** All of it, for people. */
  readonly text: string;
}
