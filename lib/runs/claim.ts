import type { OverlapPolicy } from '../options/job-definition.js';
import type { RunKey, RunTrigger, SavedCheckpoint } from '../options/run.js';

/**
 * A record without what is null or undefined: a recordset has null there in any case, and a message is half as long.
 */
export function sparse(record: object): object {
  return Object.fromEntries(Object.entries(record).filter(([, value]) => value !== null && value !== undefined));
}

/** The flag that a start asks for. */
export interface FlagToAsk {
  /** Asked in the claim, by the table; null for none. */
  readonly flag?: string | null;
  /** Why it is off whatever the table says: the application's provider says so. */
  readonly off?: string | null;
}

/** An occurrence somebody should claim. */
export interface DueOccurrence extends RunKey, FlagToAsk {
  /** The fire time plus the job's jitter: nobody may start it earlier. */
  readonly startsAt: Date;
  /** What the fire time was computed from. */
  readonly cron: string;
  readonly timeZone: string;
  readonly calendar: string | null;
  readonly overlap: OverlapPolicy;
  /** How many runs of the job may go on at a time; null for no limit. */
  readonly parallel: number | null;
  /** How many may wait in line, with the policy `queue`. */
  readonly queueLimit: number;
  readonly group?: string | null;
  /** How many runs of the group may go on at a time. */
  readonly groupLimit?: number | null;
  readonly leaseMs: number;
  /** Somebody asks for just this one, also of a time before the job was there. @default false */
  readonly byHand?: boolean;
  /** Somebody delivers it: it is queued for whoever has room, if it may run. @default nobody does */
  readonly delivery?: Delivery | null;
}

/** Who delivers an occurrence, and what its handler gets. */
export interface Delivery {
  readonly by: string | null;
  /** Null: what the job has. */
  readonly data: unknown;
}

/** A run that waits for its next attempt, as it was seen. */
export interface WaitingRun extends RunKey, FlagToAsk {
  readonly attempt: number;
  readonly overlap: OverlapPolicy;
  /** How many runs of the job may go on at a time; null for no limit. */
  readonly parallel?: number | null;
  readonly group?: string | null;
  /** How many runs of the group may go on at a time. */
  readonly groupLimit?: number | null;
  readonly leaseMs: number;
  /** When the schedule needs the place that the run would take; only a backfill gives way to it. @default never */
  readonly placeNeededAt?: Date | null;
}

/** What the database said to one candidate. */
export type ClaimVerdict =
  /** It is ours: `attempt` and `leaseUntil` are set. */
  | 'claimed'
  /** Its pages begin again, without its tick and without an owner: `attempt` and `pages` are set. */
  | 'fanned_out'
  /** It has a row that says why it does not run: `reason` is set. */
  | 'skipped'
  /** It has a row that waits: it starts when the run of a backfill that is in its way has ended. */
  | 'queued'
  /** Somebody else decided it. */
  | 'taken'
  /** By the database's clock it is not due yet. */
  | 'early'
  /** It is no occurrence of its job: that has another schedule by now, or another name, or is no more. */
  | 'outdated'
  /** It is late, and a run of its job that began after it was due is in the way: to be tried again. */
  | 'waiting';

/** What became of one candidate. What its verdict does not set is null. */
export interface ClaimAnswer extends RunKey {
  readonly verdict: ClaimVerdict;
  readonly reason: string | null;
  readonly attempt: number | null;
  readonly releases: number | null;
  readonly trigger: RunTrigger | null;
  readonly beside: boolean;
  readonly leaseUntil: Date | null;
  readonly pages: number | null;
  /** Of a run that was given its own; null otherwise. */
  readonly data: unknown;
  /** What an earlier attempt has saved; null for nothing; undefined where it is too large to come along. */
  readonly checkpoint?: SavedCheckpoint | null;
}

/** The answers to one batch, and the database's clock when it gave them. */
export interface ClaimAnswers {
  readonly databaseNow: Date;
  readonly answers: ClaimAnswer[];
}

/** A candidate with as little text as says it, for it crosses to the database at every claim. */
export function given(candidate: DueOccurrence | WaitingRun): object {
  const { startsAt, byHand, ...facts } = { startsAt: null, byHand: false, ...candidate };
  return sparse({
    ...facts,
    startsAt: startsAt?.getTime() === candidate.fireTime.getTime() ? null : startsAt,
    byHand: byHand || null,
  });
}

export interface ClaimRow {
  job_name: string;
  fire_time: Date;
  verdict: ClaimVerdict;
  reason?: string | null;
  attempt: number | null;
  releases: number | null;
  trigger: RunTrigger | null;
  beside?: boolean;
  lease_until: Date | null;
  pages?: number | null;
  has_data?: boolean;
  /** The one value in an array, for it may be null; null also for one that is too large for the answer. */
  data?: [unknown] | null;
  has_checkpoint?: boolean;
  /** As `data`. */
  checkpoint?: [unknown] | null;
  now: Date;
}

export function answers(rows: readonly ClaimRow[]): ClaimAnswers {
  return {
    databaseNow: rows[0]?.now ?? new Date(NaN),
    answers: rows.map((row) => ({
      jobName: row.job_name,
      fireTime: row.fire_time,
      verdict: row.verdict,
      reason: row.reason ?? null,
      attempt: row.attempt,
      releases: row.releases,
      trigger: row.trigger,
      beside: row.beside ?? false,
      leaseUntil: row.lease_until,
      pages: row.pages ?? null,
      data: row.data?.[0] ?? null,
      checkpoint: checkpointOf(row),
    })),
  };
}

function checkpointOf({ has_checkpoint: there, checkpoint }: ClaimRow): SavedCheckpoint | null | undefined {
  if (!there) return null;
  return checkpoint ? { value: checkpoint[0] } : undefined;
}

/** Rows are written in the order of their key, so that two batches never wait for each other crosswise. */
export function byKey(a: RunKey, b: RunKey): number {
  if (a.jobName !== b.jobName) return a.jobName < b.jobName ? -1 : 1;
  return a.fireTime.getTime() - b.fireTime.getTime();
}
