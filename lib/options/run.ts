/** Names one occurrence: a job and the canonical instant it was due, whole seconds. */
export interface RunKey {
  readonly jobName: string;
  readonly fireTime: Date;
}

/** What a receipt stands for within its run. */
export interface ReceiptKey {
  readonly entity: string;
  readonly effect: string;
}

/** Where a run stands; see DESIGN.md, "The path of one occurrence". */
export type RunStatus =
  | 'queued'
  | 'running'
  | 'fanned_out'
  | 'done'
  | 'failed'
  | 'orphaned'
  | 'dead'
  | 'skipped'
  | 'cancelled';

/**
 * What caused a run to exist: the schedule at its time, the schedule after a gap, an operator's backfill, a person, or
 * a delivery from outside.
 */
export type RunTrigger = 'schedule' | 'catch-up' | 'backfill' | 'manual' | 'external';

/** Why an occurrence did not run. */
export type SkipReason =
  | 'overlap'
  | 'paused'
  | 'disabled'
  | 'missed: too old'
  | 'missed: too many'
  | 'missed: skipped'
  | 'missed: superseded by a newer one'
  | 'superseded by an edit';

/** A claim that was won: the right to run one attempt of one occurrence while the lease lasts. */
export interface OwnedRun extends RunKey {
  /** 1, 2, …; the fencing token: every later write names it. */
  readonly attempt: number;
  /** Attempts before this one that do not count: handed back by a stopping instance, or from before a replay. */
  readonly releases: number;
  readonly trigger: RunTrigger;
  /** It may run beside others of its job, and others beside it, whatever the job's overlap policy says. */
  readonly beside: boolean;
  /** Of a run that was given its own. */
  readonly data?: unknown;
  /** What an earlier attempt has saved; null: nothing; left out when the claim did not bring it along. */
  readonly checkpoint?: SavedCheckpoint | null;
  readonly instanceId: string;
  /** Set when it is one page of the occurrence: attempt and instance are the page's then, and it has no lease. */
  readonly page?: string;
  readonly leaseMs: number;
  /** By the database's clock. */
  readonly leaseUntil: Date;
  /**
   * By this machine's monotonic clock, in milliseconds: taken before the claim was sent, so it ends no later than
   * `leaseUntil` does, however long the answer was on its way.
   */
  readonly leaseDeadline: number;
}

/** A checkpoint that there is; its value may be null. */
export interface SavedCheckpoint {
  readonly value: unknown;
}

/** The text two parts of a process agree on to mean one run. */
export function runId(run: RunKey): string {
  return `${run.jobName}@${run.fireTime.toISOString()}`;
}

/** What handlers of an instance are to stop for, as `asked_to_stop_1` answers it. */
export interface AskedToStopRow {
  cancels: { jobName: string; fireTime: string; attempt: number; reason: string }[] | null;
  flags_off: string[] | null;
}

/** Somebody asked to cancel a run of an instance. */
interface CancelRequest extends RunKey {
  readonly attempt: number;
  readonly reason: string;
}

/** What the handlers of an instance are to stop for. */
export interface AskedToStop {
  readonly cancels: readonly CancelRequest[];
  /** Of the flags that were asked for, those that the table has as off. */
  readonly flagsOff: readonly string[];
}

export function readAskedToStop({ cancels, flags_off }: AskedToStopRow): AskedToStop {
  return {
    cancels: (cancels ?? []).map((request) => ({ ...request, fireTime: new Date(request.fireTime) })),
    flagsOff: flags_off ?? [],
  };
}
