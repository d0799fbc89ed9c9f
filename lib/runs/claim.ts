import type { JobDefinition, OverlapPolicy } from '../options/job-definition.js';
import type { RunKey, RunTrigger, SavedCheckpoint } from '../options/run.js';

/**
 * A record without what is null or undefined: a recordset has null there in any case, and a message is half as long.
 */
export function sparse(record: object): object {
  return Object.fromEntries(Object.entries(record).filter(([, value]) => value !== null && value !== undefined));
}

/** What a start of a run goes by. */
export interface ClaimFacts {
  readonly overlap: OverlapPolicy;
  /** How many runs of the job may go on at a time; null for no limit. */
  readonly parallel?: number | null;
  readonly group?: string | null;
  /** How many runs of the group may go on at a time. */
  readonly groupLimit?: number | null;
  readonly leaseMs: number;
  /** Asked in the claim, by the table; null for none. */
  readonly flag?: string | null;
  /** Why it is off whatever the table says: the application's provider says so. */
  readonly off?: string | null;
}

type FactsOf = Pick<JobDefinition, 'overlap' | 'parallel' | 'concurrencyGroup' | 'leaseMs' | 'flag'>;

export function claimFacts(job: FactsOf, off: string | null): ClaimFacts {
  const { overlap, parallel, concurrencyGroup, leaseMs, flag } = job;
  const [group, groupLimit] = [concurrencyGroup?.name ?? null, concurrencyGroup?.limit ?? null];
  return { overlap, parallel, group, groupLimit, leaseMs, flag, off };
}

/** What an occurrence that is due goes by besides. */
export function dueFacts(
  { schedule, queueLimit, ...job }: FactsOf & Pick<JobDefinition, 'schedule' | 'queueLimit'>,
  off: string | null,
) {
  const { expression: cron, timeZone, calendar } = schedule;
  return { ...claimFacts(job, off), cron, timeZone, calendar, queueLimit };
}

/** An occurrence somebody should claim. */
export interface DueOccurrence extends RunKey, ClaimFacts {
  /** The fire time plus the job's jitter: nobody may start it earlier. */
  readonly startsAt: Date;
  /** What the fire time was computed from. */
  readonly cron: string;
  readonly timeZone: string;
  readonly calendar: string | null;
  /** How many may wait in line, with the policy `queue`. */
  readonly queueLimit: number;
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
export interface WaitingRun extends RunKey, ClaimFacts {
  readonly attempt: number;
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

/** What became of one candidate. What its verdict does not set is null, or left out. */
export interface ClaimAnswer extends RunKey {
  readonly verdict: ClaimVerdict;
  readonly reason?: string | null;
  readonly attempt: number | null;
  readonly releases: number | null;
  readonly trigger: RunTrigger | null;
  readonly beside?: boolean;
  readonly leaseUntil: Date | null;
  readonly pages?: number | null;
  /** Of a run that was given its own; null otherwise. */
  readonly data?: unknown;
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

/** An answer as the database gives it. */
export interface ClaimRow extends Omit<ClaimAnswer, 'data' | 'checkpoint'> {
  readonly hasData?: boolean;
  /** The one value in an array, for it may be null; null also for one that is too large for the answer. */
  readonly data?: [unknown] | null;
  readonly hasCheckpoint?: boolean;
  /** As `data`. */
  readonly checkpoint?: [unknown] | null;
  readonly now: Date;
}

export function answers(rows: readonly ClaimRow[]): ClaimAnswers {
  return {
    databaseNow: rows[0]?.now ?? new Date(NaN),
    answers: rows.map(({ now: _, hasData, data, hasCheckpoint, checkpoint, ...answer }) => {
      const saved = checkpoint ? { value: checkpoint[0] } : undefined;
      return { ...answer, data: data?.[0] ?? null, checkpoint: hasCheckpoint ? saved : null };
    }),
  };
}

/** Rows are written in the order of their key, so that two batches never wait for each other crosswise. */
export function byKey(a: RunKey, b: RunKey): number {
  if (a.jobName !== b.jobName) return a.jobName < b.jobName ? -1 : 1;
  return a.fireTime.getTime() - b.fireTime.getTime();
}
